"""Encoders, scorer, negatives, training and evaluation. Only this package imports torch."""
