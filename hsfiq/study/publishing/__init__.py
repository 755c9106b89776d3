"""What the owner of a study says about its releases."""
