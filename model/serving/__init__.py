"""A live retriever of our own: a checkpoint that answers searches, in process or over HTTP."""
