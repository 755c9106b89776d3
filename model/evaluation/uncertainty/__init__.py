"""How sure figures of ranked lists are: values by query, intervals, and tests between runs."""
