"""Whether the conclusions depend on doubtful answers or on one participant."""
