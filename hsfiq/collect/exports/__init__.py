"""Which answers went into which release: reading what is recorded, and deleting it."""
