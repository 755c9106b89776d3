"""The parts of a release's dataset card."""
