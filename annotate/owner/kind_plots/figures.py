"""The figures of a study's kind, as `hsfiq analyze` computes them for a release of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from hsfiq.collect.progress import AnswerRow
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo
from hsfiq.kinds import KINDS
from hsfiq.releases.content import FIRST_VERSION, Source, write_files
from hsfiq.releases.filters import Filters
from hsfiq.releases.kinds import release_kinds_of

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.kind import Figures

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The latest figures of each study, kept until somebody answers."""

    latest: dict[int, tuple[tuple[AnswerRow, ...], list[Figures]]] = field(default_factory=dict)

    def of(
        self, session: Session, study: Study, answers: Sequence[AnswerRow]
    ) -> list[Figures] | None:
        """The figures of these answers, empty without any; None without the analysis extra."""
        try:
            from hsfiq.analysis.kinds import STATISTICS  # noqa: PLC0415 (the extra may be absent)
        except ModuleNotFoundError:
            return None
        if study.kind not in STATISTICS:
            return []
        given = tuple(answers)
        known = self.latest.get(study.id)
        if known is None or known[0] != given:
            known = given, computed(session, study)
            self.latest[study.id] = known
        return known[1]


def computed(session: Session, study: Study) -> list[Figures]:
    """The figures of a release of the study as it is now."""
    from hsfiq.analysis.analyze import load_kind_inputs  # noqa: PLC0415 (the extra may be absent)

    if KINDS[study.kind].n_live > 1:
        return []  # an arena has its leaderboard
    (kind,) = release_kinds_of(study.kind)
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = Source(session, study, kind, Filters())
        try:
            write_files(source, folder, schema_revision=head_revision(), version=FIRST_VERSION)
        except NothingToDo:
            return []
        inputs = load_kind_inputs(folder, [], n_resamples=RESAMPLES)
        return inputs.statistics.figures(inputs.release, inputs.metrics, inputs.bootstrap)
