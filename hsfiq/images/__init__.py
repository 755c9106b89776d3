"""Image files: finding, decoding and checking them."""
