"""The pre-trained encoders that the retrieval systems start from."""
