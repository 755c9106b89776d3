"""The README's five commands print what it shows; its targets, extras and links exist."""

import re
import shlex
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from hsfiq.cli import run
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import open_database
from hsfiq.rehearsal import answer_study
from tests.docs.test_study_docs import write
from tests.hsfiq.own_data import write_own_data

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(bash|console)\n(.*?)```", re.DOTALL)


def commands_in(document: str, kind: str = "bash") -> list[list[str]]:
    blocks = [block for found, block in BLOCK.findall(document) if found == kind]
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


PUBLISHED = BLOCK.findall(
    (ROOT / "docs" / "reference" / "statistics.md").read_text(encoding="utf-8")
)[0][1]

FURTHER = """
hsfiq import fashioniq fashion-iq --images fashion-iq/images
hsfiq import cirr cirr_dataset
hsfiq import runs sprc.json --system SPRC --dataset fashioniq
hsfiq demo --answers 20 --seed 1 --dir simulated
hsfiq train cirqrs-fashioniq --data drawn --out runs/drawn --limit 40 --set epochs=2 --set n_def=1
hsfiq export --database sqlite:///simulated/hsfiq.db --release hp --out simulated/hp
hsfiq score simulated/hp --checkpoint runs/drawn
hsfiq analyze simulated/hp --metric recall@5 --metric cirqrs --report report
hsfiq evaluate fashioniq --data fashion-iq --category shirt --corpus union --run sprc.json
hsfiq evaluate fashioniq --data fashion-iq --run sprc=sprc.json --run clip4cir=clip4cir.json
hsfiq evaluate drawn --checkpoint runs/drawn --out drawn.jsonl
hsfiq images check fashion-iq
hsfiq show shirt.val.0 --data fashion-iq --run sprc.json
hsfiq sessions play --system runs/drawn --data drawn --simulator drawn-full --out rounds.jsonl
hsfiq sessions measure rounds.jsonl --k 1 --k 10
"""
"""What a researcher does after the published answers; each command needs files of those before."""


def test_the_five_commands_print_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Serving is tested elsewhere; between it and the export, simulated annotators answer."""
    write_own_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    (session,) = [block for kind, block in BLOCK.findall(README) if kind == "console"]
    n_commands = 0
    for step in session.split("$ ")[1:]:
        command, *shown = step.strip("\n").split("\n")
        words = shlex.split(command)
        if words[0] == "cd":
            monkeypatch.chdir(tmp_path / words[1].rstrip(";"))
            answer_as_shown()
            continue
        assert run(words[1:]) == 0, command
        out = capsys.readouterr().out
        assert [line for line in shown if line.strip() not in out] == [], out
        n_commands += 1
    assert n_commands == 4


def answer_as_shown() -> None:
    database = open_database("sqlite:///hsfiq.db", create=False)
    with closing(database), database.writing() as session:
        study = find_study(session, "my-study")
        assert study is not None
        study.status = "open"
        answer_study(session, "my-study", {"mine": 0.6, "clip4cir": 0.0}, 1, iter)


def test_further_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.setenv("HSFIQ_CACHE", str(tmp_path / "features"))
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 20)
    for line in filter(None, (PUBLISHED + FURTHER).splitlines()):
        assert run(shlex.split(line, comments=True)[1:]) == 0, line
    assert (tmp_path / "filtered").is_dir()


def test_every_make_target_exists() -> None:
    commands = commands_in(README)
    assert commands[:2] == [["make", "demo"], ["make", "test"]]
    for words in commands:
        if words[0] == "make":
            subprocess.run(
                ["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True
            )


def test_every_benchmark_exists() -> None:
    commands = commands_in((ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8"))
    names = {word.partition("=")[2] for words in commands for word in words if "NAME=" in word}
    assert names
    for name in names:
        assert (ROOT / "benchmarks" / f"{name.replace('-', '_')}.py").is_file()


def test_every_extra_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [words[2].strip(".[]") for words in commands_in(README) if words[0] == "pip"]
    assert extras
    assert set(extras) <= set(project["optional-dependencies"])


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    for path in links:
        assert (ROOT / path).exists(), path


def test_it_is_short() -> None:
    """Of 500 to 700 words, without commands and table rows."""
    text = BLOCK.sub("", README)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) <= 700


def write_inputs(folder: Path) -> None:
    """The files that the README's commands name, as small as their formats allow."""
    images = [f"B{number}" for number in range(12)]
    captions = [{"candidate": "B0", "target": "B1", "captions": ["is red", "has sleeves"]}]
    write(folder / "fashion-iq/captions/cap.shirt.val.json", captions)
    write(folder / "fashion-iq/image_splits/split.shirt.val.json", images)
    (folder / "fashion-iq/images").mkdir()
    for image in images:
        Image.new("RGB", (30, 40), "red").save(folder / f"fashion-iq/images/{image}.png")
    entry = {"pairid": 7, "reference": "dev-0", "target_hard": "dev-1", "caption": "two dogs"}
    write(folder / "cirr_dataset/captions/cap.rc2.val.json", [entry])
    split = {"dev-0": "./dev/dev-0.png", "dev-1": "./dev/dev-1.png"}
    write(folder / "cirr_dataset/image_splits/split.rc2.val.json", split)
    write(folder / "sprc.json", {"shirt.val.0": images[1:7]})
    write(folder / "clip4cir.json", {"shirt.val.0": images[2:8]})

    def paths(*names: str) -> list[str]:
        return [f"/-/image_data/shirt/{name}.jpg" for name in names]

    def retrieved(first: int, scores: str) -> list[dict[str, object]]:
        return [
            {"img_path": paths(*images[first : first + 5]), "user_score": score} for score in scores
        ]

    write(
        folder / "hpfiq.json",
        {
            f"user_{user}": {
                "question_set_1": {
                    "ref_img_paths": paths("B0", "B1", "B2"),
                    "targ_img_paths": paths("B1", "B2", "B3"),
                    "sentences": ["is red  and has sleeves", "is blue", "is longer"],
                    "retrieved_set1": retrieved(1, "451"),
                    "retrieved_set2": retrieved(6, "233"),
                    "preferred set": ["1", "1", "1"],
                }
            }
            for user in (1, 2)
        },
    )
