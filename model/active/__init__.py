"""Choosing the pairs of the next study: those whose answers tell most about a scorer."""
