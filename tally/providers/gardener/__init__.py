"""Gardener: resource types."""
