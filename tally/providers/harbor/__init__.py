"""Harbor: resource types."""
