"""Which systems people prefer, while the study runs."""
