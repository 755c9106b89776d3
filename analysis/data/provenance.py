"""The training data of a metric, the parts of a split, and the number of people per triplet.

The JSON file beside a scores file, as `hsfiq score` writes it, lists under "trained_on" the
releases that the scorer was retrained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hsfiq.analysis.data.columns import looked_up
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import JsonRecord
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.folder import EXPORT_WITH_SPLIT, SPLITS, read_parts
from hsfiq.text import first_few

# The parts of a split: what a retrained scorer was trained on, and what is held out.
#
# `splits.parquet` names the part of each question of a release exported with `--split`.

TEST = "test"
PARTS = {
    "train": "part to train on (train)",
    TEST: "held-out part (test)",
    "unused": "unused part (unused)",
}
"""Each part in words."""


def take_part(release: Release, name: str) -> Release:
    """Take the questions of one part ("train", "test" or "unused") of a release, with their sets.

    A bootstrap of the part resamples only the participants and triplets of these questions.
    UnreadableInput: the part is unknown or empty, or the release has no split that fits.
    """
    require_part(name)
    kept = parts_of_questions(release) == name
    if not kept.any():
        raise NothingToDo(f"{release.folder / SPLITS}: no question is in part {name}")
    return replace(release.subset(kept), part=name, parent=release)


def require_part(name: str) -> None:
    if name not in PARTS:
        raise UnreadableInput("part", f"no such part: {name}", f"use one of {', '.join(PARTS)}")


def parts_of_questions(release: Release) -> pd.Series[str]:
    """The part of each question, (n_questions,), indexed as the preferences of a whole release.

    UnreadableInput: the release has no split, or not exactly one known part for each question.
    """
    return parts_of(release.folder, release.preferences["question_id"].astype(str))


def parts_of(folder: Path, questions: pd.Series[str]) -> pd.Series[str]:
    """The part of each question of a whole release, indexed as `questions`."""
    path, split = folder / SPLITS, pd.Series(read_parts(folder), dtype=object)
    for mismatched, problem in (
        (questions[~questions.isin(split.index)], "lacks the question referenced by other tables"),
        (
            split.index[~split.index.isin(questions)],
            "references the question absent from other tables",
        ),
    ):
        if len(mismatched):
            ids = first_few(mismatched.tolist())
            raise UnreadableInput(path, f"{problem}: {ids}", EXPORT_WITH_SPLIT)
    return questions.map(split)


def training_notes(release: Release, metrics: Sequence[str]) -> tuple[str, ...]:
    """Warn about metrics whose scorer was, or may have been, retrained on these answers."""
    return tuple(
        note for name in metrics if name in release.scores for note in _notes(release, name)
    )


def trained_on(scores: Path, name: str) -> Sequence[Mapping[str, object]]:
    """The releases that a metric's scorer was retrained on, from the file beside its scores.

    Each has its name, version and content_sha256, oldest first. Empty if the scorer was retrained
    on none, or if there is no such file.
    """
    sources = _provenance(scores, name).get("trained_on")
    if not isinstance(sources, list):
        return ()
    return [source for source in sources if isinstance(source, dict)]


def judges_among(release: Release, metrics: Sequence[str]) -> dict[str, str]:
    """The metrics that are answers of a judge, with the judged object."""
    judges = {}
    for name in metrics:
        if name in release.scores:
            judge = _provenance(release.scores[name], name).get("judge")
            if isinstance(judge, dict):
                judges[name] = str(judge.get("asks"))
    return judges


def judge_notes(release: Release, metrics: Sequence[str]) -> tuple[str, ...]:
    """Warn about the metrics of judges that were asked about pairs."""
    return tuple(
        f'metric "{name}" has a judge\'s preferences between the two sets of a question, not '
        "scores of single sets: its correlations with scores do not measure the judge's answers"
        for name, asks in judges_among(release, metrics).items()
        if asks == "pairs"
    )


def _provenance(scores: Path, name: str) -> Mapping[str, object]:
    try:
        content = json.loads(scores.with_name(f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _notes(release: Release, name: str) -> Iterator[str]:
    sources = trained_on(release.scores[name], name)
    digest = release.content_sha256
    others = [each for each in sources if digest is None or each.get("content_sha256") != digest]
    if len(others) < len(sources):
        yield from _note_on_this_release(release, name)
    # Another release, or other content of this one, may have the same triplets or participants.
    names = dict.fromkeys(f"{source.get('name')} {source.get('version')}" for source in others)
    if names:
        yield (
            f'metric "{name}" comes from a scorer that was retrained on {", ".join(names)}, '
            "not on this release; if the releases share triplets or people, these figures are too "
            "high"
        )


def _note_on_this_release(release: Release, name: str) -> Iterator[str]:
    note = f'metric "{name}" comes from a scorer that was retrained on answers of this release'
    if not (release.folder / SPLITS).is_file():
        yield (
            f"{note}, and no question was held out: its figures are too high; export the "
            "release with --split and retrain on that"
        )
    elif release.part is None:
        yield f"{note}; its figures over all questions are too high: use --part {TEST}"
    elif release.part != TEST:
        yield f"{note}; its figures over this part are too high: use --part {TEST}"


# How many participants judged the same triplet, which decides how answers depend on each other.


def triplets_of(queries: pd.Series[str], triplets: pd.Series[str]) -> pd.Series[str]:
    """The triplet of each row's query; a query that `triplets` lacks is a triplet of its own."""
    known = looked_up(queries, triplets)
    return known if known.notna().all() else known.astype(object).fillna(queries.astype(object))


@dataclass(frozen=True)
class SharedTriplets(JsonRecord):
    """How many triplets of a study were judged by several participants.

    Attributes:
        n_shared: how many triplets two or more participants judged.
        most_participants: the largest number of participants who judged one triplet.
    """

    n_triplets: int
    n_shared: int
    most_participants: int

    @classmethod
    def of(cls, rows: pd.DataFrame, triplets: pd.Series[str] | None = None) -> SharedTriplets:
        """Count the participants of each triplet in a table with `participant_id` and `query_id`.

        `triplets` maps query_id to triplet; a query that it lacks is a triplet of its own.
        """
        of_row = rows["query_id"] if triplets is None else triplets_of(rows["query_id"], triplets)
        people = rows["participant_id"].groupby(of_row.to_numpy()).nunique()
        most = int(people.max()) if len(people) else 0
        return cls(len(people), int((people > 1).sum()), most)

    @property
    def clause(self) -> str:
        """The numbers in words."""
        were = "was" if self.n_shared == 1 else "were"
        return (
            f"{self.n_shared:,} of {self.n_triplets:,} triplets {were} judged by two or more "
            f"participants (at most {self.most_participants:,})"
        )
