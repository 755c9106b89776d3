"""Files of a release beside its tables: they have the same answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from statistics import median_low
from typing import Any

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.readers.files import Place, parse_json
from hsfiq.readers.hpfiq import KEYS, LONGEST_FORM, LONGEST_PERSON
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.scratch import Scratch
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.manifest import MANIFEST, as_it_is
from hsfiq.releases.untrusted import read_bounded_json

HPFIQ, QRELS, RECORDS, TEXTS = (
    "hpfiq.json",
    "qrels.txt",
    "session_records.jsonl",
    "text_versions.json",
)

SPARE_EMPTY_SETS = 100
"""Empty question sets allowed in addition to one for each row of `preferences`."""
OF_SYSTEMS = ("system", "system_1", "system_2")


def check_further(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """Compare each file with the tables that it repeats, if the release has them all."""
    checks: dict[str, tuple[set[str], Callable[[ReleaseFolder, Scratch, Findings], None]]] = {
        HPFIQ: ({"preferences", "queries", "sets"}, check_hpfiq),
        QRELS: ({"relevance"}, check_qrels),
        RECORDS: ({"sessions"}, check_records),
        TEXTS: (set(), check_text_versions),
    }
    if KINDS[release.kind.question_kind].is_live:
        checks[MANIFEST] = ({"sessions"}, check_searches)
    for name, (tables, check) in checks.items():
        if not (release.path / name).is_file() or not tables <= release.tables.keys():
            continue
        try:
            check(release, ids, findings)
        except HsfiqError as error:
            findings.add(name, f"is not in its layout ({error.what})")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            findings.add(name, f"is not in its layout ({type(error).__name__}: {error})")


# ------------------------------------------------------------------------------------------- hpfiq


def check_hpfiq(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """The published layout has the questions of `preferences`, in its order."""
    images = {}
    for batch in release.batches("queries", "query_id", "reference_id", "target_id"):
        for _, row in batch.numbered("query_id", "reference_id", "target_id"):
            images[row["query_id"]] = (row["reference_id"], row["target_id"])
    rows = answers_in(release, ids, images)
    for listed, row in zip_longest(published_answers(release), rows):
        if listed is None:
            findings.add(HPFIQ, f"lacks question {row['question']}")
            return
        if row is None:
            findings.add(HPFIQ, f"has {listed['question']}, which preferences.parquet lacks")
            return
        number = row.pop("row")
        for column, value in row.items():
            if listed[column] != value:
                what = f"is {listed[column]!r} of {listed['question']}, and in the tables {value!r}"
                findings.add(HPFIQ, what, row=number, column=column)


def answers_in(
    release: ReleaseFolder, ids: Scratch, images: dict[str, tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Each row of `preferences` with what the published layout has of it."""
    for batch in release.batches("preferences"):
        rows = list(batch.numbered())
        sets = ids.sets(row[name] for _, row in rows for name in ("set_1", "set_2"))
        for number, row in rows:
            reference, target = images.get(row["query_id"], (None, None))
            yield {
                "row": number,
                "question": (row["participant_id"], row["form"]),
                "ref_img_paths": reference,
                "targ_img_paths": target,
                "sentences": row["text"],
                "retrieved_set1": (sets.get(row["set_1"], {}).get("image_ids"), row["score_1"]),
                "retrieved_set2": (sets.get(row["set_2"], {}).get("image_ids"), row["score_2"]),
                "preferred set": row["preferred"],
            }


def published_answers(release: ReleaseFolder) -> Iterator[dict[str, Any]]:
    """The questions of the published layout.

    Raises:
        UnreadableInput: the name of a user or a question set cannot be stored, a user has no
            question set, or too many sets are empty (a published study may have some).
    """
    n_empty, most_empty = 0, release.n_rows("preferences") + SPARE_EMPTY_SETS
    for participant, forms in users_in(release):
        Place(participant, f"{HPFIQ}: ").name(LONGEST_PERSON)
        if not forms:
            raise UnreadableInput(HPFIQ, f"{participant[:40]!r} has no question set")
        for form, place in Place(forms, f"{HPFIQ}: ").items(LONGEST_FORM):
            columns = {name: place.key(name).value for name in KEYS}
            n_empty += not any(columns.values())
            if n_empty > most_empty:
                raise UnreadableInput(HPFIQ, f"has more than {most_empty:,} empty question sets")
            for values in zip(*columns.values(), strict=True):
                listed = dict(zip(KEYS, values, strict=True))
                yield {
                    "question": (participant, form),
                    "ref_img_paths": image_of(listed["ref_img_paths"]),
                    "targ_img_paths": image_of(listed["targ_img_paths"]),
                    "sentences": listed["sentences"],
                    "retrieved_set1": set_of(listed["retrieved_set1"]),
                    "retrieved_set2": set_of(listed["retrieved_set2"]),
                    "preferred set": int(listed["preferred set"]),
                }


def users_in(release: ReleaseFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    """The users of a file with our indent, one at a time."""
    lines: list[str] = []
    with (release.path / HPFIQ).open(encoding="utf-8") as file:
        for line in file:
            if line.startswith('  "'):
                lines = [line]
            elif lines:
                lines.append(line)
                if line.rstrip(",\n") == "  }":
                    text = "{" + "".join(lines).rstrip(",\n") + "}"
                    ((user, forms),) = parse_json(text, HPFIQ).items()
                    yield user, forms
                    lines = []


def image_of(path: str) -> str:
    return PurePosixPath(path).stem


def set_of(value: dict[str, Any]) -> tuple[list[str], int]:
    return [image_of(path) for path in value["img_path"]], int(value["user_score"])


# ---------------------------------------------------------------------------------------- the rest


def check_qrels(release: ReleaseFolder, _ids: Scratch, findings: Findings) -> None:
    """Each line has the median level that annotators gave the image for the query."""
    levels: dict[tuple[str, str], list[int]] = defaultdict(list)
    for batch in release.batches("relevance", "query_id", "image_id", "relevance"):
        for _, row in batch.numbered("query_id", "image_id", "relevance"):
            levels[row["query_id"], row["image_id"]].append(row["relevance"])
    expected = (f"{query} 0 {image} {median_low(own)}" for (query, image), own in levels.items())
    with (release.path / QRELS).open(encoding="utf-8") as file:
        lines = (line.rstrip("\n") for line in file)
        for number, (line, own) in enumerate(zip_longest(lines, expected), start=1):
            if line != own:
                what = f"is {line or 'missing'!r}, and by relevance.parquet {own!r}"
                findings.add(QRELS, what, row=number)


def check_records(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """Each session is a search, with its participant, its query and as many rounds as turns."""
    turns = {}
    for batch in release.batches("sessions", "question_id", "turns"):
        for _, row in batch.numbered("question_id", "turns"):
            turns[row["question_id"]] = row["turns"]
    with (release.path / RECORDS).open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            record = parse_json(line, RECORDS, number)
            own = record["session_id"]
            asked = ids.asked([own]).get(own)
            if asked is None:
                findings.add(RECORDS, f"{own} is not in sessions.parquet", row=number)
                continue
            facts = {
                "participant": asked.participant,
                "query_id": asked.query,
                "rounds": turns.pop(own, None),
            }
            for name, value in facts.items():
                given = len(record[name]) if name == "rounds" else record.get(name)
                if given != value:
                    what = f"is {given}, and in the tables {value}"
                    findings.add(RECORDS, what, row=number, column=name)
    for own, n_turns in turns.items():
        if n_turns:
            findings.add(RECORDS, f"lacks {own}, which has {n_turns} turns")


def check_searches(release: ReleaseFolder, _ids: Scratch, findings: Findings) -> None:
    """Each search has the settings of the manifest, and retrievers that it describes."""
    if "retrievers" not in release.manifest:
        findings.note(f"{MANIFEST} does not say what the retrievers were: it is of an older hsfiq")
        return
    searches = release.manifest["searches"]
    corpora = {each["system"]: each["corpus"] for each in release.manifest["retrievers"]}
    settings = {name: searches[name] for name in ("task", "history", "chooser")}
    for batch in release.batches("sessions"):
        for number, row in batch.numbered():
            expected = {**settings, "max_rounds": searches["rounds"]}
            systems = [name for name in OF_SYSTEMS if name in row]
            for name in systems:
                if row[name] not in corpora:
                    what = f"{row[name]} is no retriever of {MANIFEST}"
                    findings.add("sessions.parquet", what, row=number, column=name)
            if corpus := corpora.get(row[systems[0]]):
                expected |= {"corpus": corpus["name"], "corpus_size": corpus["size"]}
            for name, value in expected.items():
                if row[name] != value:
                    what = f"is {row[name]}, and in {MANIFEST} {value}"
                    findings.add("sessions.parquet", what, row=number, column=name)


def check_text_versions(release: ReleaseFolder, _ids: Scratch, findings: Findings) -> None:
    """The versions of the texts that pages showed are in the file of their texts."""
    main = release.kind.main
    known = {number for number, _ in text_versions(release.path)}
    if not release.has(main, "text_version"):
        return
    for batch in release.batches(main, "text_version"):
        for number, row in batch.numbered("text_version"):
            if row["text_version"] is not None and row["text_version"] not in known:
                what = f"{row['text_version']} is not in {TEXTS}"
                findings.add(f"{main}.parquet", what, row=number, column="text_version")


def text_versions(folder: Path) -> list[tuple[int, Any]]:
    """The number and the texts of each version; none if the release does not have the file.

    Raises:
        UnreadableInput: the file is not in its layout.
    """
    path = folder / TEXTS
    if not path.is_file():
        return []
    versions = []
    for place in Place(read_bounded_json(path), f"{path}: ").list():
        texts = place.key("texts")
        list(texts.items())
        as_it_is(texts)
        versions.append((place.key("number").integer(), texts.value))
    if len({number for number, _ in versions}) < len(versions):
        raise UnreadableInput(str(path), "has a version twice")
    return versions
