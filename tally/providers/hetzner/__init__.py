"""Hetzner Cloud: resource types."""
