"""Writing the files of a release as their rows come."""
