"""BLIP-2 through transformers."""
