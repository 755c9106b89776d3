"""Evaluating ranked lists on the field's benchmarks; only ranking with a scorer needs torch."""
