"""The query vector of a search, from the vectors of its turns.

The mean is FISD's; Rocchio's is that of CIRCLED's builder, with its weights. It adds the vector of
the text, which a composed query has none of: here it adds the composed vector of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from hsfiq.live.protocol import History

TEXT, CHOSEN, OTHERS = 0.44, 0.08, -0.29
"""Rocchio's weights of a turn's query, of the image chosen for it, and of the others shown."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A turn: its composed vector, the chosen image's, and the mean of the others shown, each [D].

    `others` is None if they are unknown, as before the first turn.
    """

    composed: Tensor
    chosen: Tensor
    others: Tensor | None


def search_vector(turns: Sequence[Feedback], history: History) -> Tensor:
    """The vector of a search of at least one turn: [D], of length 1."""
    if history == "last":
        vector = turns[-1].composed
    elif history == "mean":
        vector = sum((turn.composed for turn in turns[1:]), turns[0].composed)
    else:
        vector = rocchio(turns)
    return F.normalize(vector, dim=0)


def rocchio(turns: Sequence[Feedback]) -> Tensor:
    """Each turn moves the vector towards its query and the chosen image, away from the others."""
    vector = turns[0].composed
    for turn in turns[1:]:
        vector = vector + TEXT * turn.composed + CHOSEN * turn.chosen
        if turn.others is not None:
            vector = vector + OTHERS * turn.others
        vector = F.normalize(vector, dim=0)
    return vector
