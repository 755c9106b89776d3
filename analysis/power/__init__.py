"""Power: the precision of a study of a given size, by simulation."""
