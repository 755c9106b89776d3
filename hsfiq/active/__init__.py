"""Choosing the pairs that a next study asks."""
