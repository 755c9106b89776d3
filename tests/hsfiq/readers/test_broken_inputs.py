"""Broken inputs of every kind: one line that names file and location, and nothing changed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hsfiq.samples import CIRR, FASHIONIQ, HPFIQ, RUNS, dump, hsfiq, published

Setup = Callable[[Path], object]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that holds FashionIQ, a run and a study, and with a release."""
    folder = tmp_path_factory.mktemp("filled")
    url = f"sqlite:///{folder / 'hsfiq.db'}"
    for arguments in (
        ["import", "fashioniq", FASHIONIQ],
        ["import", "runs", RUNS / "sprc.trec"],
        ["import", "hpfiq", HPFIQ],
        ["export", "--release", "hp", "--out", folder / "release"],
    ):
        assert hsfiq(*arguments, "--database", url).code == 0
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to be damaged."""
    folder = tmp_path / "here"
    shutil.copytree(filled, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    return folder


@dataclass(frozen=True)
class Broken:
    """A setup of the folder, the command, and a part of its error line."""

    name: str
    setup: Setup
    command: str
    message: str
    code: int = 2


# ---------------------------------------------------------------------------------------- setups


def no_setup(_: Path) -> None:
    """The command needs no setup."""


def file(text: str | bytes, name: str = "it.json") -> Setup:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / name).write_bytes(data)


def answers(change: Callable[[Any], object]) -> Setup:
    """The hand-made published file with something changed in user_1's first question set."""

    def setup(folder: Path) -> None:
        value = published()
        change(value["user_1"]["question_set_1"])
        (folder / "it.json").write_text(json.dumps(value), encoding="utf-8")

    return setup


def put(key: str, new: object) -> Setup:
    return answers(lambda form: form[key].__setitem__(1, new))


def dataset(source: Path, name: str, change: Callable[[Any], object] | bytes) -> Setup:
    """A copy of a dataset with one of its files changed."""

    def setup(folder: Path) -> None:
        shutil.copytree(source, folder / "data")
        path = folder / "data" / name
        if isinstance(change, bytes):
            path.write_bytes(change)
            return
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        path.write_text(json.dumps(value), encoding="utf-8")

    return setup


def shirts(change: Callable[[Any], object]) -> Setup:
    return dataset(FASHIONIQ, "captions/cap.shirt.val.json", change)


def pairs(change: Callable[[Any], object]) -> Setup:
    return dataset(CIRR, VAL, change)


def without_split(folder: Path) -> None:
    shutil.copytree(FASHIONIQ, folder / "data")
    (folder / "data" / SPLIT).unlink()


def in_release(name: str, content: bytes | None) -> Setup:
    """Another content of a file of the release, or none."""

    def setup(folder: Path) -> None:
        path = folder / "release" / name
        path.unlink()
        if content is not None:
            path.write_bytes(content)

    return setup


def revision(number: str) -> Setup:
    """A database whose schema has an unknown revision."""

    def setup(folder: Path) -> None:
        shutil.copyfile(folder / "hsfiq.db", folder / "later.db")
        with closing(sqlite3.connect(folder / "later.db")) as connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", [number])
            connection.commit()

    return setup


def truncate_database(folder: Path) -> None:
    """A database file that was truncated."""
    data = (folder / "hsfiq.db").read_bytes()
    (folder / "cut.db").write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


DEEP = "[" * 100_000
HP = "import hpfiq it.json"
FIQ = "import fashioniq data"
PAIRS = "import cirr data"
RUN = "import runs it.json --system S"
SPLIT = "image_splits/split.shirt.val.json"
VAL = "captions/cap.rc2.val.json"
ANALYZE = "analyze release --metric recall@5"

IMPORTS = [
    # files that are none
    Broken("json", file('{"user_1":\n  {"a" 1}}'), HP, "it.json: line 2, column 8: invalid JSON"),
    Broken("latin-1", file("{'é'}".encode("latin-1")), HP, "it.json: byte 2: this is not UTF-8"),
    Broken("utf-16", file("{}".encode("utf-16")), HP, "it.json: byte 0: this is not UTF-8"),
    Broken("folder", no_setup, "import hpfiq release", "release: cannot be read (Is a directory)"),
    Broken("absent", no_setup, "import hpfiq absent.json", "absent.json: there is no such file"),
    Broken("empty", file(""), HP, "it.json: line 1, column 1: invalid JSON"),
    Broken("no-question", file("{}"), HP, "it.json: contains no question"),
    Broken("list", file("[]"), HP, "it.json: expected an object, found a list"),
    Broken("number", file("3"), HP, "it.json: expected an object, found 3"),
    Broken("deep", file(DEEP), HP, "it.json: the JSON is nested too deeply"),
    Broken("nan", file('{"user_1": NaN}'), HP, "it.json: NaN is not a JSON value"),
    Broken("digits", file("9" * 5000), HP, "it.json: a number is too long"),
    Broken("twins", file('{"a": {}, "a": {}}'), HP, "it.json: the key 'a' occurs twice"),
    # the published layout
    Broken("user", file('{"user_1": []}'), HP, "it.json: user_1: expected an object"),
    Broken("long-user", file(json.dumps({"u" * 99: {}})), HP, "1 to 80 characters, not 99"),
    Broken("nul", file('{"a\\u0000": {}}'), HP, "has characters that cannot be stored"),
    Broken("surrogate", put("sentences", "\ud800"), HP, "sentences[1]: the text has characters"),
    Broken("missing", answers(lambda form: form.pop("sentences")), HP, "question_set_1: the key"),
    Broken("unknown", answers(lambda form: form.update(x=[])), HP, "unknown key 'x'"),
    Broken("unequal", answers(lambda form: form["sentences"].pop()), HP, "differ in length"),
    Broken("no-list", answers(lambda form: form.update(sentences="a")), HP, "found 'a'"),
    Broken("no-sentence", put("sentences", None), HP, "sentences[1]: expected text, found null"),
    Broken("preferred-1", put("preferred set", 1), HP, "preferred set[1]: 1 is not one of"),
    Broken("other-root", put("targ_img_paths", "/x/shirt/a.jpg"), HP, "does not follow the file's"),
    Broken("long-id", put("targ_img_paths", f"/-/image_data/shirt/{'x' * 76}.jpg"), HP, "1 to 75"),
    Broken("no-form", file('{"user_3": {}}'), HP, "user_3: has no question set"),
    Broken("sentence", put("sentences", 7), HP, "question_set_1.sentences[1]: expected text"),
    Broken("preferred-3", put("preferred set", "3"), HP, "preferred set[1]: '3' is not one of"),
    Broken("preferred-0", put("preferred set", "0"), HP, "preferred set[1]: '0' is not one of"),
    Broken("preferred-list", put("preferred set", [1] * 10**5), HP, "preferred set[1]: a list is"),
    Broken("no-category", put("ref_img_paths", "a.jpg"), HP, "ref_img_paths[1]: 'a.jpg' is no"),
    Broken("no-extension", put("ref_img_paths", "a/b/c"), HP, "ref_img_paths[1]: 'a/b/c' is no"),
    Broken("two-patterns", put("targ_img_paths", "/a/b.png"), HP, "does not follow the file's"),
    Broken(
        "mixed", put("targ_img_paths", "/-/image_data/dress/b.jpg"), HP, "categories dress, shi"
    ),
    *(
        Broken(
            f"score-{score!r}",
            answers(lambda form, score=score: form["retrieved_set1"][1].update(user_score=score)),
            HP,
            f"retrieved_set1[1].user_score: {score!r} is not one of the strings 1, 2, 3, 4, 5",
        )
        for score in ("6", "0", 5, 4.0, "five", "")
    ),
    Broken(
        "four-images",
        answers(lambda form: form["retrieved_set2"][0]["img_path"].pop()),
        HP,
        "user_1.question_set_1.retrieved_set2[0].img_path: 4 images instead of 5",
    ),
    Broken("study-name", no_setup, f"import hpfiq {HPFIQ} --study ../up", "cannot be the name"),
    # FashionIQ
    Broken("fiq-absent", no_setup, "import fashioniq absent", "absent: there is no such folder"),
    Broken("fiq-other", no_setup, "import fashioniq release", "release: has no captions/cap."),
    Broken("fiq-cirr", no_setup, f"import fashioniq {CIRR}", "no captions/cap."),
    Broken("fiq-file", no_setup, f"import fashioniq {HPFIQ}", "there is no such folder"),
    Broken("category", no_setup, f"import fashioniq {FASHIONIQ} --category hat", "category 'hat'"),
    Broken("split", no_setup, f"import fashioniq {FASHIONIQ} --split x", "split 'x'; there are"),
    Broken("images", no_setup, f"import fashioniq {FASHIONIQ} --images no", "no: there is no such"),
    Broken("no-split-file", without_split, FIQ, "shirt.val.json: there is no"),
    Broken(
        "no-captions", shirts(lambda rows: rows[0].pop("captions")), FIQ, "[0]: the key 'captions"
    ),
    Broken(
        "no-row", shirts(lambda rows: rows.insert(0, ["ref_a"])), FIQ, "[0]: expected an object"
    ),
    Broken("split-file", dataset(FASHIONIQ, SPLIT, b"{}"), FIQ, "val.json: expected a list"),
    Broken("split-json", dataset(FASHIONIQ, SPLIT, b"["), FIQ, "shirt.val.json: line 1, column 2"),
    Broken("split-ids", dataset(FASHIONIQ, SPLIT, b"[1]"), FIQ, "val.json: [0]: expected text"),
    Broken("reference", shirts(lambda rows: rows[1].update(candidate="?")), FIQ, "[1].candidate"),
    Broken("target", shirts(lambda rows: rows[2].update(target="?")), FIQ, "[2].target: image '?'"),
    Broken("null-target", shirts(lambda rows: rows[2].update(target=None)), FIQ, "found null"),
    Broken("captions", shirts(lambda rows: rows[0]["captions"].append("")), FIQ, "[0]: 3 captions"),
    Broken(
        "caption", shirts(lambda rows: rows[0].update(captions=["a", 1])), FIQ, "captions[1]: exp"
    ),
    # CIRR
    Broken("pairid", pairs(lambda rows: rows[1].pop("pairid")), PAIRS, "[1]: the key"),
    Broken("pair-twice", pairs(lambda rows: rows.append(rows[0])), PAIRS, "[2]: the p"),
    Broken("pair-huge", pairs(lambda rows: rows[0].update(pairid=10**300)), PAIRS, "301"),
    Broken(
        "pair-text", pairs(lambda rows: rows[0].update(pairid="1")), PAIRS, "[0].pairid: expected"
    ),
    Broken(
        "no-hard", pairs(lambda rows: rows[0].update(target_hard=None)), PAIRS, "[0].target_hard"
    ),
    Broken(
        "members", pairs(lambda rows: rows[0].update(img_set={})), PAIRS, "[0].img_set: the key"
    ),
    Broken("no-rows", dataset(CIRR, VAL, b"{}"), PAIRS, "expected a list, found an object"),
    Broken("member", pairs(lambda rows: rows[0].update(reference="?")), PAIRS, "'?'"),
    Broken("cirr-split", no_setup, f"import cirr {CIRR} --split dev", "no captions of split 'dev'"),
    Broken("cirr-other", no_setup, f"import cirr {FASHIONIQ}", "no captions/cap.rc2."),
    # runs: the reader's own tests have the others
    Broken("run-rank", file("q Q0 a x 1 S\n"), RUN, "it.json: line 1: rank 'x'"),
    Broken("run-list", file('{"q": "a"}'), RUN, "it.json: q: expected a list, found 'a'"),
    Broken("run-system", file('{"q": ["a"]}'), "import runs it.json", "name it with --system"),
    Broken(
        "run-long", file('{"q": ["a"]}'), f"import runs it.json --system {'S' * 201}", "--system"
    ),
]

NEED_DATA = [
    Broken("conflict", put("sentences", "other"), HP, "study hpfiq: already exists with other"),
    Broken("run-suffix", file('{"shirt.val.0#1": ["s1"]}'), RUN, "query 'shirt.val.0#1' is unk"),
    Broken(
        "run-query",
        file('{"shirt.val.2": ["s3"], "shirt.val.9": ["s1"]}'),
        RUN,
        "query 'shirt.val.9' is unknown; ids look like ",
    ),
    Broken("run-image", file('{"shirt.val.0": ["zz"]}'), RUN, "image 'zz' is not in dataset"),
    Broken("run-dataset", file('{"q": ["a"]}'), f"{RUN} --dataset x", "--dataset: no dataset is"),
    # export
    Broken("no-study", no_setup, "export --study no", "--study: no study is called 'no'"),
    Broken("version", no_setup, "export --version one", "--version: 'one' is not a version"),
    Broken("kind", no_setup, "export --release xx", "--release: 'xx' is not one of"),
    Broken("seconds", no_setup, "export --filter too-fast(seconds=-1)", "'-1'"),
    Broken("no-seconds", no_setup, "export --filter too-fast(seconds=nan)", "'nan'"),
    Broken("endless", no_setup, "export --filter too-fast(seconds=inf)", "'inf'"),
    Broken("unwritable", no_setup, "export --out hsfiq.db/x", "cannot be written ("),
    Broken("occupied", no_setup, "export --release hs --out release", "holds another release"),
    Broken("option", no_setup, "export --nope", "No such option: --nope"),
    Broken("argument", no_setup, "export it", "unexpected extra argument"),
    Broken("command", no_setup, "exprot", "No such command 'exprot'"),
    # analyze
    Broken("metric", no_setup, "analyze release", "--metric: is missing"),
    Broken(
        "metric-name",
        no_setup,
        "analyze release --metric clip",
        "clip: release hpfiq-hp has no such metric",
    ),
    Broken("recall@9", no_setup, "analyze release --metric recall@9", "recall@9"),
    Broken("recall@0", no_setup, "analyze release --metric recall@0", "recall@0"),
    Broken("recall@x", no_setup, "analyze release --metric recall@x", "recall@x"),
    Broken("unit", no_setup, f"{ANALYZE} --unit query", "no such unit: query"),
    Broken("no-release", no_setup, "analyze no --metric recall@5", "no: there is no such f"),
    Broken("no-releases", no_setup, "analyze --metric recall@5", "releases/: holds no hp release"),
    Broken("manifest-json", in_release("manifest.json", b'{"name":'), ANALYZE, "line 1, column 9"),
    Broken("manifest-key", in_release("manifest.json", b"{}"), ANALYZE, "manifest.json: key "),
    Broken(
        "table", in_release("sets.parquet", b"PAR1"), ANALYZE, "sets.parquet: cannot be read (P"
    ),
    Broken(
        "no-table", in_release("queries.parquet", None), ANALYZE, "queries.parquet: there is no"
    ),
    Broken("scores", no_setup, "analyze release --metric x --scores x.csv", "x.csv"),
    # databases
    Broken("url", no_setup, "study list --database nonsense", "nonsense is not a database URL"),
    Broken("dialect", no_setup, "study list --database oracel://x", "is not a database URL"),
    Broken("port", no_setup, "study list --database postgresql://h:x/y", "is not a database URL"),
    Broken(
        "server",
        no_setup,
        "study list --database postgresql://nobody:secret@127.0.0.1:9/x",
        "postgresql://nobody:***@127.0.0.1:9/x: the database cannot be used (",
    ),
    Broken(
        "no-database",
        file("a text of some length" * 100, "text.db"),
        "study list --database sqlite:///text.db",
        "sqlite:///text.db: the database cannot be used (file is not a database)",
    ),
    Broken("db-folder", no_setup, "study list --database sqlite:///release", "unable to open"),
    Broken("db-absent", no_setup, "study list --database sqlite:///no.db", "does not exist yet", 1),
    Broken("db-nowhere", no_setup, "db upgrade --database sqlite:///no/no.db", "unable to open"),
    Broken(
        "db-cut",
        truncate_database,
        "export --database sqlite:///cut.db",
        "the database cannot be used (",
    ),
    Broken("db-later", revision("9"), "export --database sqlite:///later.db", "schema revision 9"),
    Broken("db-upgrade", revision("9"), "db upgrade --database sqlite:///later.db", "revision"),
    Broken("db-check", revision("9"), "db check --database sqlite:///later.db", "at 9, not at", 1),
    Broken(
        "db-other",
        lambda folder: sqlite3.connect(folder / "other.db").executescript("CREATE TABLE t (x)"),
        "study list --database sqlite:///other.db",
        "sqlite:///other.db: the database is at schema revision none",
    ),
    # the demo
    Broken("answers", no_setup, "demo --answers 0", "Invalid value for '--answers'"),
    Broken("seed", no_setup, "demo --answers 1 --seed x", "Invalid value for '--seed'"),
    Broken("port-range", no_setup, "demo --port 99999", "Invalid value for '--port'"),
    Broken("demo-file", no_setup, "demo --answers 1 --dir hsfiq.db", "exists and is not a folder"),
    Broken("demo-below", no_setup, "demo --answers 1 --dir hsfiq.db/x", "hsfiq.db/x: Not a direc"),
]


def named(cases: list[Broken]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def complain(case: Broken) -> None:
    command = hsfiq(*case.command.split())
    assert (command.code, command.out) == (case.code, "")
    assert command.err.startswith("hsfiq: ")
    assert command.err.endswith("\n")
    lines = [line for line in command.err.splitlines() if "warning: " not in line]
    assert len(lines) == 1, command.err
    assert case.message in command.err
    assert len(command.err) < 600


@pytest.mark.parametrize("case", named(IMPORTS + NEED_DATA))
def test_broken_input_gives_one_line_and_changes_nothing(case: Broken, folder: Path) -> None:
    """If there is no database, a failed import makes none."""
    before = dump(folder / "hsfiq.db")
    case.setup(folder)
    complain(case)
    assert dump(folder / "hsfiq.db") == before
    assert not (folder / "releases").exists()
    if case in IMPORTS:
        (folder / "hsfiq.db").unlink()
        complain(case)
        assert list(folder.glob("**/*.db")) == []
