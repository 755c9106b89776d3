"""CLIP, the backbone of CLIP4CIR: its two encoders and its tokenizer."""
