"""Creating a study while others write, and removing what an interrupted creation has left."""
