"""How much a system needs both inputs: the composition gap of CIRCUS."""
