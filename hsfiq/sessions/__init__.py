"""Sessions: searches of one participant or simulator for one query, over several rounds."""
