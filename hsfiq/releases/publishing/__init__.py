"""Publishing a release on the Hugging Face hub."""
