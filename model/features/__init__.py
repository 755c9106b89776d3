"""Images and their tokens: preprocessing, the frozen encoder's output, and the cache of it."""
