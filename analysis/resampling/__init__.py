"""Resampling: the cluster bootstrap, intervals and permutation tests."""
