"""The other side of `export-million`: the same files by pandas.

`python -m benchmarks.export_pandas DATABASE FOLDER` reads a drawn study with `read_sql`, and
writes the tables of an `hs` release with `to_parquet` and `to_json`, as a script would that a group
writes for this.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

QUESTIONS = """
select p.name participant_id, f.name form, q.place, q.pair_id pair_key, q.swapped, q.text own_text,
  r.score_1, r.score_2, r.preferred, r.confirmed, r.irrelevant, r.reason,
  coalesce(r.revision, 0) revision, r.served_at, r.first_interaction_at, r.submitted_at,
  (select sum(x.active_seconds) from responses x where x.question_id = q.id) active_seconds,
  r.images, r.text_version, r.language, r.skipped
from forms f join participants p on p.id = f.participant_id
join questions q on q.form_id = f.id
left join responses r on r.question_id = q.id and r.revision =
  (select max(x.revision) from responses x where x.question_id = q.id)
order by p.id, f.position, q.place
"""
PAIRS = """
select a.id pair_key, a.first_id, a.second_id, q.id query_key,
  t.external_id || q.suffix query_id, q.text
from pairs a join queries q on q.id = a.query_id join triplets t on t.id = q.triplet_id
order by a.id
"""
SETS = """
select s.id, y.name system from retrieved_sets s left join systems y on y.id = s.system_id
"""
IMAGES = """
select r.set_id, i.name from retrieved_images r join images i on i.id = r.image_id
order by r.set_id, r.rank
"""
QUERIES = """
select q.id, t.external_id || q.suffix query_id, t.external_id triplet_id, d.name dataset,
  t.category, t.split, a.name reference_id, b.name target_id, q.text, t.captions
from queries q join triplets t on t.id = q.triplet_id join datasets d on d.id = t.dataset_id
left join images a on a.id = t.reference_id left join images b on b.id = t.target_id order by q.id
"""
STATES = {"m": "missing", "u": "unloaded", "l": "loaded", "s": "shown", "e": "enlarged"}
TIMES = ["served_at", "first_interaction_at", "submitted_at"]
PREFERENCES = [
    "question_id",
    "participant_id",
    "form",
    "place",
    "query_id",
    "pair_id",
    "swapped",
    "text",
    "set_1",
    "set_2",
    "system_1",
    "system_2",
    "score_1",
    "score_2",
    "preferred",
    "confirmed",
    "irrelevant",
    "revision",
    "served_at",
    "first_interaction_at",
    "submitted_at",
    "active_seconds",
    "failed_checks",
    "images_painted",
    "images_enlarged",
    "reference_state",
    "text_version",
    "language",
]
SET_COLUMNS = [
    "set_id",
    "question_id",
    "side",
    "participant_id",
    "query_id",
    "system",
    "image_ids",
    "shown_order",
    "image_states",
    "score",
]


def main(database: str, folder: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        questions = pd.read_sql(QUESTIONS, connection, parse_dates=TIMES)
        pairs = pd.read_sql(PAIRS, connection)
        systems = pd.read_sql(SETS, connection).set_index("id")["system"]
        images = pd.read_sql(IMAGES, connection).groupby("set_id")["name"].agg(list)
        queries = pd.read_sql(QUERIES, connection)
    pairs["number"] = pairs.groupby("query_key").cumcount()
    pairs["pair_id"] = pairs["query_id"] + "/" + pairs["number"].astype(str)
    rows = questions.merge(pairs, on="pair_key", how="left")
    ids = rows["participant_id"] + "." + rows["form"] + "." + rows["place"].astype(str)
    rows["question_id"] = ids
    rows["swapped"] = rows["swapped"].astype(bool)
    answered = rows[rows["revision"] > 0].copy()
    write(preferences(answered, systems), folder / "preferences")
    write(sets(answered, systems, images), folder / "sets")
    write(used(queries, answered), folder / "queries")
    reasons = answered[answered["reason"].notna()]
    write(reasons[["question_id", "participant_id", "reason"]], folder / "reasons")
    write(exclusions(rows[rows["revision"] == 0]), folder / "exclusions")


def shown_keys(rows: pd.DataFrame, side: int) -> pd.Series[int]:
    """The key of set 1 or 2 as shown."""
    first, second = ("first_id", "second_id") if side == 1 else ("second_id", "first_id")
    return rows[first].where(~rows["swapped"], rows[second])


def preferences(rows: pd.DataFrame, systems: pd.Series[str]) -> pd.DataFrame:
    for side in (1, 2):
        rows[f"set_{side}"] = rows["question_id"] + f".{side}"
        rows[f"system_{side}"] = shown_keys(rows, side).map(systems)
    rows["text"] = rows["own_text"].where(rows["own_text"].notna(), rows["text"])
    rows["failed_checks"] = None
    rows["images_painted"] = rows["images"].map(by_letters(rows, is_painted))
    rows["images_enlarged"] = rows["images"].map(by_letters(rows, lambda text: text.count("e")))
    rows["reference_state"] = rows["images"].str[0].map(STATES)
    rows["irrelevant"] = rows["irrelevant"].astype("boolean")
    whole = ("score_1", "score_2", "preferred", "text_version")
    rows = rows.astype(dict.fromkeys(whole, "Int64"))
    return rows[PREFERENCES]


def is_painted(letters: str) -> bool:
    return not set(letters) - set("se ")


def by_letters(rows: pd.DataFrame, function: Any) -> dict[str, Any]:
    return {text: function(text) for text in rows["images"].unique()}


def sets(rows: pd.DataFrame, systems: pd.Series[str], images: pd.Series[Any]) -> pd.DataFrame:
    sides = []
    for side in (1, 2):
        keys = shown_keys(rows, side)
        part = rows[["question_id", "participant_id", "query_id"]].copy()
        part["set_id"] = rows["question_id"] + f".{side}"
        part["side"] = side
        part["system"] = keys.map(systems)
        part["image_ids"] = keys.map(images)
        part["shown_order"] = None
        states = {
            text: [STATES[letter] for letter in text.split(" ")[side]]
            for text in rows["images"].unique()
        }
        part["image_states"] = rows["images"].map(states)
        part["score"] = rows[f"score_{side}"].astype("Int64")
        sides.append(part[SET_COLUMNS])
    return pd.concat(sides).sort_index(kind="stable")


def used(queries: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    queries = queries[queries["id"].isin(rows["query_key"])].drop(columns="id")
    queries["captions"] = queries["captions"].map(json.loads)
    shown = queries["text"].str.split().str.join(" ")
    queries.insert(list(queries).index("text") + 1, "text_shown", shown)
    return queries


def exclusions(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[["question_id", "participant_id", "query_id"]].copy()
    rows["rule"], rows["value"] = "unanswered", "no response"
    rows["rules"] = [["unanswered"]] * len(rows)
    rows["values"] = [["no response"]] * len(rows)
    return rows


def write(table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(f"{path}.parquet", index=False, compression="zstd")
    table.to_json(
        f"{path}.jsonl", orient="records", lines=True, date_format="iso", date_unit="us",
        double_precision=15, force_ascii=False,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
