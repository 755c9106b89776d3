"""The commands of the README run in their order; its targets, extras and links exist."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from hsfiq.cli import run

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    for line in block.splitlines()
    if line.strip()
]


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_postgres: str) -> None:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.setenv("HSFIQ_CACHE", str(tmp_path / "features"))
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 20)
    n_commands = 0
    for words in COMMANDS:
        if words[0] == "export":
            monkeypatch.setenv("HSFIQ_DATABASE_URL", empty_postgres)
        if words[0] == "hsfiq":
            assert run(smaller(words[1:])) == 0, " ".join(words)
            n_commands += 1
    assert n_commands >= 8
    assert (tmp_path / "filtered").is_dir()


def smaller(arguments: list[str]) -> list[str]:
    """The same command on less data."""
    if arguments[0] == "train":
        return [*arguments, "--limit", "40", "--set", "epochs=2", "--set", "n_def=1"]
    return ["20" if word == "1000" else word for word in arguments]


def test_every_make_target_exists() -> None:
    make_commands = [words[1:] for words in COMMANDS if words[0] == "make"]
    assert make_commands[:3] == [["demo"], ["test"], ["arena"]]
    for arguments in make_commands:
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)


def test_every_benchmark_exists() -> None:
    names = {word.partition("=")[2] for words in COMMANDS for word in words if "NAME=" in word}
    assert names
    for name in names:
        assert (ROOT / "benchmarks" / f"{name.replace('-', '_')}.py").is_file()


def test_every_extra_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [words[2].strip(".[]") for words in COMMANDS if words[:2] == ["pip", "install"]]
    assert extras
    assert set(extras) <= set(project["optional-dependencies"])


def test_every_linked_file_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert links
    for path in links:
        assert (ROOT / path).exists(), path


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


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
