"""Studies in a frame of Mechanical Turk."""
