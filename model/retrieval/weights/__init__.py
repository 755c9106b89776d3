"""The published weights of the retrieval systems: reading, checking and renaming them."""
