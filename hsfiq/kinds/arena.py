"""`arena`: a search with two live retrievers side by side, and a vote between them at each turn.

The judgement in the end is that of a search.
"""

from dataclasses import replace

from hsfiq.kinds.search import SEARCH

ARENA = replace(
    SEARCH,
    name="arena",
    asks="searches with two systems side by side",
    n_live=2,
)
