"""What to ask next: the pairs whose answers would teach a scorer most."""
