"""The arena: two live systems side by side, and which list people preferred at each turn."""
