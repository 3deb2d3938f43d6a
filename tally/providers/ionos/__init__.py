"""IONOS Cloud: resource types."""
