"""The page of a search, as JSON."""
