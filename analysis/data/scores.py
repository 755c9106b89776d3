"""Scores files: a scorer's score of each retrieved set, or of each of its images.

`RELEASE.scores/<name>.parquet` beside a release, or any Parquet, CSV or JSONL file, with the
columns `set_id, score`, or `set_id, image_id, score`. The file's name is the metric's.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import places_of
from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few

PER_IMAGE = ".images"  # `<name>.images.parquet` has the image scores behind `<name>.parquet`
NO_SCORE = {"", "nan", "null"}
RECALL = re.compile(r"recall@(.*)", re.IGNORECASE | re.DOTALL)
"""Names of metrics computed from the sets themselves; no scores file may have one."""

Row = dict[str, object]


def scores_folder(release_folder: Path) -> Path:
    """`RELEASE.scores` beside a release, even if it is missing."""
    real = release_folder.resolve()
    return real.with_name(f"{real.name}.scores")


def find_scores(release_folder: Path, extra_files: Sequence[Path] = ()) -> dict[str, Path]:
    """Find the scores files of a release, and extra ones, sorted by metric name; no file is read.

    UnreadableInput: an extra file does not exist or has an unknown ending, or two files have the
    same name.
    """
    stored = sorted(scores_folder(release_folder).glob("*.parquet"))
    files = {path.stem: path for path in stored if not path.stem.endswith(PER_IMAGE)}
    for path in extra_files:
        name = _metric_name(path)
        if name in files and not files[name].samefile(path):
            raise UnreadableInput(path, f"{files[name]} already gives {name}", "rename one of them")
        files[name] = path
    for name, path in files.items():
        if RECALL.fullmatch(name):
            raise UnreadableInput(
                path, f"{name} is computed from the sets, not read from a file", "rename the file"
            )
    return dict(sorted(files.items()))


def read_scores(path: Path, sets: pd.DataFrame) -> pd.Series[float]:
    """Read one scores file: float64 by set_id in the order of `sets`; NaN where it has no score.

    If it has scores per image, a set's score is the mean over its images (CIRQRS eq. 7; as
    `set_score` in `hsfiq.model.scorer.scorer`), and a set with an unscored image has none.

    Raises:
        UnreadableInput: the file cannot be read, or a row (named in the error) has an unknown set
            or image, occurs twice, or has no finite number.
    """
    columns = _plain_columns(path, sets)
    if columns is not None:
        return columns
    return read_scores_by_row(path, sets)


def read_image_scores(path: Path, sets: pd.DataFrame) -> dict[tuple[str, str], float]:
    """The defined scores of single images by set_id and image_id.

    From `<name>.images.parquet` beside `<name>.parquet`, or from the file itself; empty if neither
    has any. UnreadableInput as in `read_scores`.
    """
    beside = path.with_name(f"{path.stem.removesuffix(PER_IMAGE)}{PER_IMAGE}.parquet")
    images = _images_of(sets)
    scores = {}
    for where, row in _rows(beside if beside.is_file() else path):
        if "image_id" not in row:
            return {}
        set_id, image_id = _key(row, images, where)
        scores[set_id, image_id] = _number(row["score"], where)
    return {key: score for key, score in scores.items() if not math.isnan(score)}


def read_scores_by_row(path: Path, sets: pd.DataFrame) -> pd.Series[float]:
    """The same, row by row: for all kinds of files, and to locate a mistake."""
    return _by_set(((f"{path}, {place}", row) for place, row in _rows(path)), sets)


def scores_of_table(name: str, table: pd.DataFrame, sets: pd.DataFrame) -> pd.Series[float]:
    """The same from a DataFrame with the columns of a scores file.

    UnreadableInput: a column is missing, or as in `read_scores`.
    """
    missing = [column for column in ("set_id", "score") if column not in table]
    if missing:
        raise UnreadableInput(f"scores {name}", f"no column {', '.join(missing)}")
    records = enumerate(table.to_dict("records"), start=1)
    rows = (
        (f"scores {name}, row {number}", {str(column): value for column, value in record.items()})
        for number, record in records
    )
    return _by_set(rows, sets)


def _by_set(rows: Iterable[tuple[str, Row]], sets: pd.DataFrame) -> pd.Series[float]:
    """Each set's score from rows with their places."""
    scores: dict[tuple[str, ...], float] = {}
    images = _images_of(sets)
    for where, row in rows:
        key = _key(row, images, where)
        if key in scores:
            raise UnreadableInput(where, f"{' '.join(key)} occurs twice", "keep one row")
        scores[key] = _number(row.get("score"), where)
    if any(len(key) > 1 for key in scores):
        values = [
            fmean(scores.get((set_id, image), math.nan) for image in images[set_id])
            for set_id in images
        ]
    else:
        values = [scores.get((set_id,), math.nan) for set_id in images]
    return pd.Series(values, index=set_ids(sets), dtype="float64", name="score")


def _images_of(sets: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    ids = (str(set_id) for set_id in sets["set_id"])
    return dict(zip(ids, (tuple(map(str, names)) for names in sets["image_ids"]), strict=True))


def _plain_columns(path: Path, sets: pd.DataFrame) -> pd.Series[float] | None:
    """Read a Parquet file with one number for each set, all at once; None for anything else."""
    if path.suffix != ".parquet":
        return None
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError):
        return None
    if not {"set_id", "score"} <= set(table.columns) or "image_id" in table.columns:
        return None
    if table["set_id"].dtype != "str" or not pd.api.types.is_float_dtype(table["score"]):
        return None
    scores = table["score"].to_numpy(dtype=np.float64)
    places = places_of(table["set_id"], sets["set_id"])
    if (places < 0).any() or len(np.unique(places)) < len(places) or np.isinf(scores).any():
        return None
    by_set = np.full(len(sets), np.nan)
    by_set[places] = scores
    return pd.Series(by_set, index=set_ids(sets), name="score")


def set_ids(sets: pd.DataFrame) -> pd.Index[str]:
    """The sets' ids for an index: the table's categories, or else Python objects."""
    ids = sets["set_id"]
    if isinstance(ids.dtype, pd.CategoricalDtype):
        return pd.CategoricalIndex(ids)
    return pd.Index([str(set_id) for set_id in ids], dtype=object)


def _metric_name(path: Path) -> str:
    if path.suffix not in READERS:
        raise UnreadableInput(
            path, "is not a scores file", f"its name must end in {', '.join(READERS)}"
        )
    if not path.is_file():
        raise UnreadableInput(path, "no such file")
    return path.stem.removesuffix(PER_IMAGE)


def _key(row: Row, images: Mapping[str, Sequence[str]], where: str) -> tuple[str, ...]:
    """The set or image that a row scores: (set_id,) or (set_id, image_id), with known ids."""
    set_id = row.get("set_id")
    if not isinstance(set_id, str) or set_id not in images:
        raise UnreadableInput(where, f"unknown set_id {set_id}", "score the sets of this release")
    if "image_id" not in row:
        return (set_id,)
    image_id = row["image_id"]
    if not isinstance(image_id, str) or image_id not in images[set_id]:
        raise UnreadableInput(
            where,
            f"set {set_id} has no image {image_id}",
            f"its images are {first_few(list(images[set_id]), len(images[set_id]))}",
        )
    return (set_id, image_id)


def _number(value: object, where: str) -> float:
    """Parse a score; null and NaN mean that there is none."""
    if value is None or (isinstance(value, str) and value.strip().lower() in NO_SCORE):
        return math.nan
    try:
        number = math.inf if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.inf
    if math.isinf(number):
        raise UnreadableInput(
            where, f'score "{value}" is not a finite number', "leave it empty if unknown"
        )
    return number


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield each row with its place in the file; all rows must have the same columns."""
    per_image: bool | None = None
    try:
        if path.stat().st_size == 0:
            raise UnreadableInput(path, "is empty", "write set_id and score of each set")
        for place, row in READERS[path.suffix](path):
            per_image = "image_id" in row if per_image is None else per_image
            columns = ("set_id", "image_id", "score") if per_image else ("set_id", "score")
            missing = [name for name in columns if name not in row]
            if missing or ("image_id" in row) != per_image:
                what = (
                    f"no {', '.join(missing)}" if missing else "image_id, which earlier rows lack"
                )
                raise UnreadableInput(f"{path}, {place}", what, f"columns are {', '.join(columns)}")
            yield place, row
    except (OSError, ValueError, csv.Error) as error:
        raise UnreadableInput(path, f"cannot be read ({' '.join(str(error).split())})") from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    frame = pd.read_parquet(path)
    for number, record in enumerate(frame.to_dict("records"), start=1):
        yield f"row {number}", {str(name): value for name, value in record.items()}


def _csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Rows separated by commas, semicolons or tabs; only with commas is `0,5` two cells."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header = lines.readline()
        lines.seek(0)
        separator = next((each for each in ";\t" if each in header and "," not in header), ",")
        reader = csv.DictReader(lines, delimiter=separator)
        for row in reader:
            if None in row:
                raise UnreadableInput(
                    f"{path}, line {reader.line_num}", "more fields than the header"
                )
            if separator != "," and row.get("score"):
                row["score"] = row["score"].replace(",", ".")
            yield f"line {reader.line_num}", dict(row)


def _jsonl_rows(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UnreadableInput(f"{path}, line {number}", f"is not JSON ({error})") from error
            if not isinstance(row, dict):
                raise UnreadableInput(f"{path}, line {number}", "is not a JSON object")
            yield f"line {number}", row


READERS = {".parquet": _parquet_rows, ".csv": _csv_rows, ".jsonl": _jsonl_rows}
