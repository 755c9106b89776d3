"""Dividing the edges of a bipartite graph among colours, in equal numbers everywhere.

Such a division always exists (de Werra, 1971), so what is drawn with it is balanced exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from random import Random

Edge = tuple[Hashable, Hashable]


def balanced_colours(edges: Sequence[Edge], n_colours: int, rng: Random) -> list[int]:
    """A colour from 0 for each edge, which joins a left to a right vertex.

    The numbers of edges of two colours differ by at most 1, at each vertex and in all. Of the edges
    at a left vertex, in their order, every `n_colours` have all the colours.
    """
    colouring = Colouring(edges, n_colours)
    for edge in rng.sample(range(len(edges)), len(edges)):
        colouring.add(edge, rng)
    colouring.level()
    return [colouring.colours[edge] for edge in range(len(edges))]


class Colouring:
    """Each vertex is split into parts of `n_colours` edges or fewer; no part has a colour twice."""

    def __init__(self, edges: Sequence[Edge], n_colours: int) -> None:
        self.n_colours = n_colours
        degrees: Counter[Hashable] = Counter()
        self.parts: list[tuple[Hashable, Hashable]] = []
        for edge in edges:
            ends = tuple(enumerate(edge))
            left, right = ((end, degrees[end] // n_colours) for end in ends)
            self.parts.append((left, right))
            degrees.update(ends)
        self.colours: dict[int, int] = {}
        self._at: dict[Hashable, dict[int, int]] = defaultdict(dict)

    def add(self, edge: int, rng: Random) -> None:
        """Colour an edge, and recolour others if its ends have no free colour in common."""
        left, right = self.parts[edge]
        free_left, free_right = self._free(left), self._free(right)
        both = [colour for colour in free_left if colour in free_right]
        if both:
            self._set(edge, rng.choice(both))
            return
        colour = rng.choice(free_left)
        # In a bipartite graph, this path does not end at `left`.
        self._swap_path(right, colour, rng.choice(free_right))
        self._set(edge, colour)

    def level(self) -> None:
        """Recolour paths until the colours have as many edges as each other, or one more."""
        while True:
            counts = Counter(dict.fromkeys(range(self.n_colours), 0))
            counts.update(self.colours.values())
            most, fewest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
            if counts[most] - counts[fewest] <= 1:
                return
            self._swap_path(self._start_of_more(most, fewest), most, fewest)

    def _free(self, part: Hashable) -> list[int]:
        return [colour for colour in range(self.n_colours) if colour not in self._at[part]]

    def _set(self, edge: int, colour: int) -> None:
        self.colours[edge] = colour
        for part in self.parts[edge]:
            self._at[part][colour] = edge

    def _path(self, part: Hashable, first: int, second: int) -> list[int]:
        """The edges from a part on, of two colours in turn."""
        path: list[int] = []
        while (edge := self._at[part].get(first)) is not None:
            path.append(edge)
            left, right = self.parts[edge]
            part = right if part == left else left
            first, second = second, first
        return path

    def _swap_path(self, part: Hashable, first: int, second: int) -> None:
        """Exchange the two colours of the path from a part on."""
        path = self._path(part, first, second)
        for edge in path:
            for end in self.parts[edge]:
                del self._at[end][self.colours[edge]]
        for edge in path:
            self._set(edge, second if self.colours[edge] == first else first)

    def _start_of_more(self, most: int, fewest: int) -> Hashable:
        """Where a path begins that begins and ends with the colour that has more edges."""
        return next(
            part
            for part, by_colour in self._at.items()
            if most in by_colour
            and fewest not in by_colour
            and len(self._path(part, most, fewest)) % 2
        )
