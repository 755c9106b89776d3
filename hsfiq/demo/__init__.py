"""The demo: a study on the drawn catalogue, served or answered by simulation; or the full loop."""
