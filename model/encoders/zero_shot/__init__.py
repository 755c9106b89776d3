"""Image-text models as retrievers without any training."""
