"""OpenStack: resource types, and nova's notifications as events."""
