"""The systems behind the retrieved sets: strengths, rankings and comparisons."""
