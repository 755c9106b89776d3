"""The field's benchmarks: what they ask, who answers, the numbers; only a scorer needs torch."""
