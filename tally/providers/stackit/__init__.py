"""STACKIT: resource types."""
