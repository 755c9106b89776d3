"""The tables of searches over several turns."""
