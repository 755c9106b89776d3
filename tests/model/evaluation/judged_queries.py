"""A small set of judged queries, whose figures are computed by hand in the tests."""

from __future__ import annotations

from pathlib import Path

from tests.model.evaluation.helpers import put

QUERIES = """\
query_id,group,cluster,text
q1,dogs,running,is running
q2,dogs,running,runs
q3,cats,asleep,is asleep
"""
"""Two paraphrases of one query about dogs, and one query about cats."""

DATABASES = "group,image_id\n" + "".join(
    f"{group},{image}\n"
    for group, images in (("dogs", "abcde"), ("cats", "xyz"))
    for image in images
)

QRELS = """\
q1 0 a 2
q1 0 b -1
q1 0 c 0
q1 0 d 1
q2 0 a 2
q2 0 b -1
q3 0 x -1
"""
"""q1: a fits well, d fits, c does not fit, b is wrong, e is unjudged. q3 has no relevant image."""

LISTS = {"q1": ["b", "a", "e", "d", "c"], "q2": ["a", "d", "e", "b", "c"], "q3": ["z", "y", "x"]}


def write_set(folder: Path) -> tuple[str | Path, ...]:
    """Write the files; return the words of the command that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"queries.csv": QUERIES, "databases.csv": DATABASES, "qrels.txt": QRELS}
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return (
        *("evaluate", "judged", "--queries", folder / "queries.csv"),
        *("--databases", folder / "databases.csv", "--qrels", folder / "qrels.txt"),
    )


def write_lists(folder: Path, name: str = "run.json", **changed: list[str]) -> Path:
    return put(folder / name, LISTS | changed)
