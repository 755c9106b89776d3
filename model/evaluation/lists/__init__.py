"""A system's ranked lists: matching them to a benchmark, and checking them."""
