"""Training recipes and the values of their settings."""
