"""Which questions a release keeps: the rules, applied one after the other."""
