"""What surrounds the training loop: the run, its folder, optimizer, validation and callbacks."""
