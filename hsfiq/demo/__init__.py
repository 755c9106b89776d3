"""The demo: a study on the drawn catalogue, served, answered by simulation, or the whole loop."""
