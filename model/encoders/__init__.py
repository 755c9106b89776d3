"""Image and text encoders behind one protocol."""
