"""Ranking with a scorer or a retrieval system, and writing its lists."""
