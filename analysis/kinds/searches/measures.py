"""The measures of `analysis.sessions` for the searches of a release."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hsfiq.analysis.data.judged import JudgedRelease
from hsfiq.analysis.kinds.kind import system_names
from hsfiq.analysis.kinds.searches.outcomes import OWN_WISH
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sessions.measure import SessionAnalysis, measure
from hsfiq.analysis.sessions.ranks import ROUND_COLUMNS, SESSION_COLUMNS
from hsfiq.analysis.sessions.rules import Rules


def measures(release: JudgedRelease, bootstrap: Bootstrap) -> SessionAnalysis | None:
    """Those of all searches with a turn; None if there is none.

    K are 1 and the number of images in a list: people stop when they see what they look for.
    """
    turns = release.turns
    searches = release.answers[release.answers["question_id"].isin(turns["question_id"])]
    if not len(searches):
        return None
    shown = int(turns["n_images"].max())
    return measure(
        session_rows(searches),
        round_rows(turns),
        Rules(ks=tuple(sorted({1, max(1, shown)}))),
        bootstrap=bootstrap,
        simulated=release.simulated,
    )


def session_rows(searches: pd.DataFrame) -> pd.DataFrame:
    named = searches.assign(
        system=system_names(searches),
        session_id=searches["question_id"],
        has_target=searches["task"] != OWN_WISH,
        stop_at=np.nan,
        stop_reason=searches["stop"],
    )
    return named[list(SESSION_COLUMNS)]


def round_rows(turns: pd.DataFrame) -> pd.DataFrame:
    named = turns.assign(
        system=system_names(turns),
        session_id=turns["question_id"],
        round=turns["turn"],
        earlier_ties=np.nan,
        depth=turns["n_images"],
        reference=turns["reference_id"],
        is_repeated_text=False,
        seconds=turns["retriever_seconds"],
    )
    return named[list(ROUND_COLUMNS)]
