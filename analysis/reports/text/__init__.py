"""An analysis as plain text for the terminal."""
