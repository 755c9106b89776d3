"""What may stand in a study's config, however it was written."""
