"""Encoders, scorer, negatives, training and evaluation. torch lives here and nowhere else."""
