"""Queries with judged images: queries, judgements and databases by their files, and i-CIR's."""
