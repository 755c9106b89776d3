"""The images that a study's participants see."""
