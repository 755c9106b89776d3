"""The studio: pages on which owners set up, watch, decide on and report studies."""
