"""Searches over several turns: what participants do, and what retrievers answer."""
