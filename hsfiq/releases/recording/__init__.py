"""Recording in the database which answers went into a release."""
