"""BLIP-2 through LAVIS."""
