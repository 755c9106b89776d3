"""Image-text models with one encoder for images and one for texts, untrained or trained further."""
