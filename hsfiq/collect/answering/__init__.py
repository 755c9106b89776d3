"""An answer as the page sends it."""
