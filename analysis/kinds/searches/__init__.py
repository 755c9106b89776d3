"""The statistics of searches over several turns, by people."""
