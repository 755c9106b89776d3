"""Checkpoints: JSON files, their tensors, and what a scorer was trained on."""
