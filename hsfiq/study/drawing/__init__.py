"""Drawing the questions of a form that are attention checks."""
