"""Labels of a benchmark's queries, such as those of CIRCUS."""
