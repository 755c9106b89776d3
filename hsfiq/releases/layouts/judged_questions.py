"""The preferences of a release folder with their queries and images, for layouts to train on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from hsfiq.releases.reader import Part, read_parts, read_rows

QUESTIONS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with its two sets, best first; `part` is None without a split."""

    question_id: str
    participant_id: str
    dataset: str
    reference: str | None
    target: str | None
    text: str
    sets: tuple[tuple[str, ...], tuple[str, ...]]
    scores: tuple[int, int]
    preferred: int
    part: Part | None

    @property
    def image_ids(self) -> tuple[str, ...]:
        """The reference, if there is one, then the images of set 1, then those of set 2."""
        reference = () if self.reference is None else (self.reference,)
        return (*reference, *self.sets[0], *self.sets[1])


def read_judged(folder: Path) -> Iterator[list[JudgedQuestion]]:
    """The questions in the order of `preferences`, some at a time.

    The two sets of a question follow each other in `sets`, in the order of the questions.
    """
    parts = read_parts(folder) if (folder / "splits.parquet").is_file() else {}
    columns = ("query_id", "dataset", "reference_id", "target_id", "text_shown")
    queries = {
        row["query_id"]: row
        for row in read_rows(
            folder / "queries.parquet", columns, nullable=("reference_id", "target_id")
        )
    }
    names = ["question_id", "participant_id", "query_id", "score_1", "score_2", "preferred"]
    with (
        pq.ParquetFile(folder / "preferences.parquet") as questions,
        pq.ParquetFile(folder / "sets.parquet") as sets,
    ):
        images = (
            tuple(row["image_ids"])
            for batch in sets.iter_batches(2 * QUESTIONS_AT_ONCE, columns=["image_ids"])
            for row in batch.to_pylist()
        )
        for batch in questions.iter_batches(QUESTIONS_AT_ONCE, columns=names):
            judged = []
            for row in batch.to_pylist():
                query = queries[row["query_id"]]
                judged.append(
                    JudgedQuestion(
                        row["question_id"],
                        row["participant_id"],
                        query["dataset"],
                        query["reference_id"],
                        query["target_id"],
                        query["text_shown"],
                        (next(images), next(images)),
                        (row["score_1"], row["score_2"]),
                        row["preferred"],
                        parts.get(row["question_id"]),
                    )
                )
            yield judged
