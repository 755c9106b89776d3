"""Choosing the pairs of the next study: those whose answers are most informative about a scorer."""
