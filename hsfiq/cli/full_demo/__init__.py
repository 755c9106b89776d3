"""`hsfiq demo --full`: the whole loop on the drawn catalogue, step by step."""
