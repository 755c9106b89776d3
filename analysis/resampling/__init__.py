"""Resampling: draws of clusters, intervals and permutation tests."""
