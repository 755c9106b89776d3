"""Negative sets: which images a query's target is trained against, and drawing from them."""
