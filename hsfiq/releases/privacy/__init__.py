"""What could tell who the participants of a release are."""
