"""One module for each system, named as its paper names it."""
