"""docs/guides/own-data.md: its commands run in order, on drawn shapes, judged over HTTP."""

from __future__ import annotations

import csv
import json
import re
import shlex
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from PIL import Image as Picture
from PIL import ImageDraw

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.collect.protocol import QuestionView
from hsfiq.db.engine import Database
from hsfiq.readers import own_queries, runs
from hsfiq.simulate.client import StudyClient
from hsfiq.study.config_file import read_config
from tests.annotate.page_requests import answer_body
from tests.annotate.served_studies import Place, ThreadServer
from tests.hsfiq.samples import hsfiq
from tests.studies import ROOT

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 200)}
SHAPES = ("circle", "square", "triangle")
K = 3
N_PEOPLE = 6

Shape = tuple[str, str]
"""A shape and its colour."""


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "guides" / "own-data.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


_, START, AFTERWARDS = (
    [shlex.split(line) for line in block.splitlines()] for block in blocks("bash")
)


def test_five_commands_are_enough() -> None:
    assert len(START) <= 5
    assert START[-1] == ["hsfiq", "serve"]


def test_the_files_of_the_page_can_be_read(tmp_path: Path) -> None:
    for name, content in zip(("queries.csv", "runs.csv"), blocks("csv"), strict=True):
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "more.jsonl").write_text(blocks("json")[0], encoding="utf-8")
    (tmp_path / "study.toml").write_text(blocks("toml")[0], encoding="utf-8")
    assert len(own_queries.read(tmp_path / "queries.csv")) == 3
    (row,) = own_queries.read(tmp_path / "more.jsonl")
    assert isinstance(row, own_queries.PlacedQuery)
    assert row.query.text == "is blue and is larger"
    assert [ranked.system for _, ranked in runs.read(tmp_path / "runs.csv")] == ["ours", "baseline"]
    assert read_config(tmp_path / "study.toml").queries.dataset == "shop"


def drawn(shape: Shape) -> Picture.Image:
    picture = Picture.new("RGB", (60, 60), "white")
    pen, colour, box = ImageDraw.Draw(picture), COLOURS[shape[1]], (10, 10, 50, 50)
    if shape[0] == "circle":
        pen.ellipse(box, fill=colour)
    elif shape[0] == "square":
        pen.rectangle(box, fill=colour)
    else:
        pen.polygon([(30, 10), (10, 50), (50, 50)], fill=colour)
    return picture


def recognized(content: bytes) -> Shape:
    """What an annotator sees in an image."""
    picture = Picture.open(BytesIO(content)).convert("RGB")

    def distance(place: tuple[int, int], colour: tuple[int, int, int]) -> int:
        pixel: Any = picture.getpixel(place)
        return sum(abs(a - b) for a, b in zip(pixel, colour, strict=True))

    colour = min(COLOURS, key=lambda name: distance((30, 35), COLOURS[name]))
    is_filled = [distance(place, COLOURS[colour]) < 120 for place in ((13, 13), (14, 47))]
    return {(True, True): "square", (False, True): "triangle"}.get(
        (is_filled[0], is_filled[1]), "circle"
    ), colour


def wanted(text: str, reference: Shape | None) -> Shape:
    """The reference with the changes that the text asks for, or what the text alone describes."""
    shape, colour = reference or ("", "")
    words = text.split()
    return (
        next((name for name in SHAPES if name in words), shape),
        next((name for name in COLOURS if name in words), colour),
    )


def fit(shape: Shape, query: Shape) -> int:
    return (shape[0] == query[0]) + (shape[1] == query[1])


def write_inputs() -> None:
    catalogue = [(shape, colour) for shape in SHAPES for colour in COLOURS]
    for shape in catalogue:
        path = Path("photos", shape[0], f"{shape[1]}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn(shape).save(path)
    queries, ranked = [], []
    for number, (shape, colour) in enumerate([*catalogue, *catalogue[:3]]):
        kind = number % 3
        text = ("a {} {}", "", "the same in {}")[kind].format(colour, shape)
        reference = "" if kind == 0 else f"{shape}/{colour}"
        goal = wanted(text, (shape, colour))
        target = f"{goal[0]}/{goal[1]}.png" if kind != 1 else ""
        queries.append([f"q{number}/ä ", text, reference, target])
        best = sorted(catalogue, key=lambda image: -fit(image, goal))
        for system, images in (("ours", best), ("baseline", best[::-1])):
            for rank, image in enumerate(images[: K + 1], start=1):
                ranked.append([f"q{number}/ä", system, rank, "/".join(image)])
    write_csv("queries.csv", ["query_id", "text", "reference", "target"], queries)
    write_csv("runs.csv", ["query_id", "system", "rank", "image_id"], ranked)
    # Twelve queries allow only short forms.
    small = blocks("toml")[0].replace("questions_per_form = 25", "questions_per_form = 4")
    Path("study.toml").write_text(small, encoding="utf-8")


def write_csv(name: str, header: list[str], rows: list[list[Any]]) -> None:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def serve_and_judge(database: Database, *_: object) -> None:
    """In place of a server that runs until it is stopped: one that runs until all have answered."""
    server = ThreadServer(Place(Path.cwd()), database, plain_app(Services.of(database)))
    server.start()
    try:
        for _person in range(N_PEOPLE):
            client = StudyClient(server.url, Event())
            assert b"Which results match better?" in client.get("/")
            client.enrol("1")
            client.consent()
            view = client.finish_practice()
            while view["step"] == "question":
                view = client.submit(judged(client, view))["view"]
            assert view["step"] == "done"
            client.close()
    finally:
        server.stop()


def judged(client: StudyClient, view: QuestionView) -> Any:
    def seen(token: str) -> Shape:
        return recognized(client.get(f"/image/{token}/full"))

    reference = view["reference"]
    query = wanted(view["text"], seen(reference["token"]) if reference else None)
    scores = [
        1 + 2 * sum(fit(seen(image["token"]), query) for image in images) // K
        for images in view["sets"]
    ]
    preferred = 1 if scores[0] > scores[1] else 2
    return answer_body(dict(view), score_1=scores[0], score_2=scores[1], preferred=preferred)


def table(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_three_files_to_an_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.setattr("hsfiq.annotate.app.serve", serve_and_judge)
    write_inputs()
    for words in (*START, *AFTERWARDS):
        extra = ["--resamples", "50", "--json"] if "analyze" in words else []
        command = hsfiq(*words[1:], *extra)
        assert command.code == 0, (" ".join(words), command.err)
    recall = command.result["metrics"]["recall@3"]
    assert recall["spearman"]["n"] == 2 * 4 * N_PEOPLE * 8 // 12, "four queries have no target"
    release = Path("releases/shapes-hp-1.0.0")
    rows = table(release / "preferences.jsonl")
    assert len(rows) == 4 * N_PEOPLE
    assert all(row["images_painted"] for row in rows)
    for row in rows:
        better = row["system_1"] if row["preferred"] == 1 else row["system_2"]
        assert better == "ours"
    queries = table(release / "queries.jsonl")
    kinds = {(row["reference_id"] is None, row["text"] == "") for row in queries}
    assert kinds == {(True, False), (False, True), (False, False)}
    assert {row["query_id"] for row in queries} == {f"q{number}/ä" for number in range(12)}
    sheet = hsfiq("show", "q1/ä")
    assert sheet.code == 0, sheet.err
    assert Path("show-q1__.png").is_file()
