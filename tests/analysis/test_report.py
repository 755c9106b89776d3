"""The report: a page that stands alone, tables that say what the JSON says, little data."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.reports.cells import cell_text
from hsfiq.analysis.reports.document import footnote_letter
from hsfiq.analysis.reports.folder import write_folder
from hsfiq.analysis.reports.latex import escape, to_latex
from hsfiq.analysis.reports.report import Report
from hsfiq.analysis.reports.sections.methods import METHODS
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.cli import run
from tests.analysis.studies import Question, bootstrap_of, make_release, write_release
from tests.analysis.test_published import ANSWERS, read_published

XHTML = "{http://www.w3.org/1999/xhtml}"
NASTY = 'a<b>&"c"_%$#{x}~^\\'
ROOT = Path(__file__).resolve().parents[2]


def quick(release: Release) -> Bootstrap:
    return bootstrap_of(release, 40)


@pytest.fixture(scope="module")
def full(drawn: tuple[Release, pd.Series], tmp_path_factory: pytest.TempPathFactory) -> Report:
    release, utility = drawn
    path = tmp_path_factory.mktemp("scores") / "oracle.jsonl"
    utility.rename("score").rename_axis("set_id").reset_index().to_json(
        path, orient="records", lines=True
    )
    return analysis.report(release, ["recall@5", "oracle"], [path], quick(release))


@pytest.fixture(scope="module")
def files(full: Report) -> dict[str, bytes]:
    return full.files()


def check_page(html: str) -> ET.Element:
    """Well-formed, alone, every link inside it, everything named.

    An XML reader accepts no tag left open and no loose sign.
    """
    root = ET.fromstring(html.removeprefix("<!DOCTYPE html>"))
    names = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(names) == len(set(names))
    for each in root.iter():
        for key, value in each.attrib.items():
            if key.rpartition("}")[2] in {"href", "src", "data"}:
                assert value.startswith("#"), value
            for target in re.findall(r"url\((.*?)\)", value):
                assert target.strip("\"'").startswith("#"), value
        if each.tag == f"{XHTML}a":
            assert each.get("href", "")[1:] in names
        for label in (each.get("aria-labelledby"), each.get("aria-describedby")):
            assert label is None or label in names
    text = ET.tostring(root, encoding="unicode")
    assert "<script" not in text
    assert "@import" not in text
    tables = list(root.iter(f"{XHTML}table"))
    assert all(table.find(f"{XHTML}caption") is not None for table in tables)
    assert len(list(root.iter(f"{XHTML}h1"))) == 1
    return root


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield float(value)


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_the_folder_holds_everything(full: Report, files: dict[str, bytes]) -> None:
    charts = [chart.name for chart in full.document.charts()]
    tables = [table.name for table in full.document.tables()]
    assert len(charts) == len(set(charts)) == 8
    assert len(tables) == len(set(tables))
    assert {"table2_spearman", "table3_preference_rate", "table6_set_scores"} <= set(tables)
    assert set(files) == {
        "report.html",
        "results.json",
        *(f"figures/{name}.{kind}" for name in charts for kind in ("svg", "png")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("csv", "tex")),
    }
    assert all(files[f"figures/{name}.png"].startswith(b"\x89PNG") for name in charts)
    assert set(full.figures()) == set(charts)


def test_the_page_stands_alone(files: dict[str, bytes]) -> None:
    check_page(files["report.html"].decode())


def test_every_number_of_the_tables_is_in_the_results(files: dict[str, bytes]) -> None:
    known = set(numbers(json.loads(files["results.json"])))
    checked = 0
    for name, content in files.items():
        if name.endswith(".csv") and name != "tables/methods.csv":
            for row in rows_of(content):
                for key, text in row.items():
                    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text or ""):
                        assert float(text) in known, (name, key, text)
                        checked += 1
    assert checked > 1_000


def test_the_page_shows_the_tables_cells(full: Report, files: dict[str, bytes]) -> None:
    root = check_page(files["report.html"].decode())
    cells = [*root.iter(f"{XHTML}td"), *root.iter(f"{XHTML}th")]
    texts = {" ".join("".join(cell.itertext()).split()).rstrip("*") for cell in cells}
    for table in full.document.tables():
        for row in table.rows:
            for cell in row:
                written = " ".join(cell_text(cell).split())
                assert any(f"{written}{mark}" in texts for mark in ("", *"abcdefghij")), cell


def test_the_results_are_what_is_printed_and_more(full: Report, files: dict[str, bytes]) -> None:
    results = json.loads(files["results.json"])
    added = results.pop("report")
    assert results == json.loads(json.dumps(full.analysis.to_json()))
    assert set(added) == {"read_first", "captions", "distribution", "participants", "base_rates"}
    assert sum(added["distribution"]["scores"].values()) == results["release"]["n_sets"]


def test_simulated_answers_say_so_wherever_they_go(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if not name.endswith((".png", ".csv")):
            assert b"simulated" in content.lower(), name
        if name.endswith(".csv"):
            assert all(row["simulated"] == "true" for row in rows_of(content)), name
    asked = make_release([Question(1), Question(2, participant="p2")])
    assert "SIMULATED" not in analysis.report(asked, [], (), quick(asked)).to_html()


def test_the_same_release_gives_the_same_bytes() -> None:
    release = make_release([Question(1, (4, 2)), Question(2, (1, 3), participant="p2")])
    found = [analysis.report(release, [], (), quick(release)).to_html() for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "study",
    [
        [],
        [Question(1)],
        [Question(1, (4, 2)), Question(2, (2, 3)), Question(1, (5, 1))],
        [Question(0, (3, 3), participant=person) for person in ("p1", "p2", "p3")],
        [Question(1, (3, 3), ("abcde", "abcde"), participant=p) for p in ("p1", "p2")] * 2,
        [Question(1, (4, 3), target=None, participant=p) for p in ("p1", "p2")] * 2,
    ],
    ids=["empty", "one question", "one participant", "human ties", "all ties", "no values"],
)
def test_little_data_gives_dashes_and_reasons(study: list[Question]) -> None:
    release = make_release(study)
    report = analysis.report(release, ["recall@5", "recall@1"], (), quick(release))
    check_page(report.to_html())
    json.dumps(report.to_json(), allow_nan=False)
    dashes = [
        (table, row)
        for table in report.document.tables()
        for row in table.rows
        for cell in row
        if cell_text(cell) == "\N{EM DASH}" and not isinstance(cell, str)
    ]
    assert dashes
    assert all(table.footnotes() for table, _ in dashes)


def test_what_is_said_first_is_true_of_the_release(
    overlapping: tuple[Release, pd.Series], tmp_path: Path
) -> None:
    preferences = overlapping[0].preferences.copy()
    preferences.loc[0, "preferred"] = 0
    release = replace(overlapping[0], simulated=False, folder=tmp_path, preferences=preferences)
    funnel = {"steps": [{"rule": "irrelevant", "dropped": 7}, {"rule": "skipped", "dropped": 0}]}
    (tmp_path / "manifest.json").write_text(json.dumps({"funnel": funnel}), encoding="utf-8")
    path = tmp_path / "half.csv"
    half = release.sets["set_id"].iloc[::2]
    half.to_frame().assign(score=range(len(half))).to_csv(path, index=False)
    said = dict(analysis.report(release, ["half"], [path], quick(release)).document.caveats)
    assert "Simulated answers" not in said
    assert "24 people compared" in said["The data"]
    assert "24 participants are few" in said["Few participants"]
    assert said["Excluded questions"] == "Not in the release: 7 flagged irrelevant."
    assert "In 1 question neither" in said["Human ties"]
    assert "no value for 720 of 1,440 sets" in said["half is incomplete"]
    assert "1,440 of 1,440 sets" in said["Overlap between annotators"]
    assert "Inter-annotator agreement is unknown" not in said


def test_no_metric_is_no_crash() -> None:
    release = make_release([Question(1), Question(2, participant="p2")])
    check_page(analysis.report(release, [], (), quick(release)).to_html())


@pytest.mark.parametrize("systems", [("one", "one"), ("one", "two")])
def test_systems_that_cannot_be_ordered(systems: tuple[str, str]) -> None:
    release = with_systems(make_release([Question(1), Question(1, participant="p2")]), *systems)
    report = analysis.report(release, ["recall@5"], (), quick(release))
    check_page(report.to_html())
    strength = next(t for t in report.document.tables() if t.name == "systems_strength")
    assert strength.footnotes()


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    study = [
        Question(preferred, scores, participant=f"{NASTY}{person}")
        for person in range(3)
        for preferred, scores in ((1, (4, 2)), (2, (1, 3)), (1, (5, 5)))
    ]
    release = with_systems(make_release(study), NASTY, f"{NASTY}2")
    path = tmp_path / f"{NASTY}{'long' * 30}.csv"
    ids = release.sets["set_id"]
    pd.DataFrame({"set_id": ids, "score": range(len(ids))}).to_csv(path, index=False)
    report = analysis.report(release, [path.stem, "recall@5"], [path], quick(release))
    assert NASTY in "".join(check_page(report.to_html()).itertext())
    for table in report.document.tables():
        check_latex(to_latex(table, simulated=False))
    assert r"a\textless{}b\textgreater{}\&\textquotedbl{}c" in escape(NASTY)


def test_latex_holds_together(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if name.endswith(".tex"):
            check_latex(content.decode())
    text = files["tables/table2_spearman.tex"].decode()
    assert r"\textbf{" in text
    assert r"\textsuperscript{***}" in text


def check_latex(text: str) -> None:
    """Braces and environments close, and every row has as many cells as there are columns."""
    bare = re.sub(r"\\[{}&%$#_\\]", "", text.replace(r"\\", ""))
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert columns is not None
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(columns[1]) - 1, row
    assert not re.search(r"(?<!\\)[%#_^~]", re.sub(r"\\(label|textasciitilde\{\}).*", "", text))


def test_footnotes_go_on_after_z() -> None:
    assert [footnote_letter(place) for place in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


def test_a_report_is_replaced_only_when_asked(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "report"
    made = {"report.html": b"old", "results.json": b"{}", "tables/a.csv": b"1"}
    write_folder(made, folder)
    assert (folder / "tables" / "a.csv").read_bytes() == b"1"
    with pytest.raises(AnalysisError, match="--force"):
        write_folder({**made, "report.html": b"new"}, folder)
    write_folder({"report.html": b"new", "results.json": b"{}"}, folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["report"]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(AnalysisError, match="not a report"):
            write_folder({"report.html": b""}, tmp_path, force=force)
    with pytest.raises(AnalysisError, match="not a folder"):
        write_folder({"report.html": b""}, tmp_path / "precious.txt", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="cannot be written"):
        write_folder({"report.html": b"", "report.html/x": b""}, tmp_path / "report")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = make_release([Question(1, (4, 2)), Question(2, (1, 3), participant="p2")])
    folder, out = write_release(release, tmp_path / "hp"), tmp_path / "report"
    command = ["analyze", str(folder), "--metric", "recall@5", "--resamples", "20"]
    assert run([*command, "--report", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert printed == {key: value for key, value in written.items() if key != "report"}
    assert analysis.report(str(folder), ["recall@5"]).analysis.release.n_questions == 2
    assert run([*command, "--report", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*command, "--force"]) == 2
    assert "--force: replaces a report, but none is written" in capsys.readouterr().err


def test_importing_the_room_loads_nothing() -> None:
    code = "import sys, analysis; print(*{'numpy', 'pandas', 'matplotlib'} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert found.stdout.strip() == ""
    with pytest.raises(AttributeError, match="no attribute"):
        _ = analysis.reprot  # type: ignore[attr-defined]


def test_every_method_is_described() -> None:
    text = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
    assert [method.name for method in METHODS if method.name not in text] == []


@pytest.mark.shared
@pytest.mark.skipif(not ANSWERS.is_file(), reason=f"no {ANSWERS}; set HSFIQ_SHARED")
def test_what_it_says_of_the_published_answers() -> None:
    release = make_release(read_published(ANSWERS))
    report = analysis.report(release, ["recall@5"], (), bootstrap_of(release, 500))
    said = dict(report.document.caveats)
    assert "Set 1 was preferred in 0.540" in said["The base rate is not 0.5"]
    assert "recall@5 from 0.508 to 0.812" in said["Preference rates depend on the rule"]
    assert (
        "98.7% prefer the higher score"
        in said["Preferences and scores are not independent evidence"]
    )
    assert "None of 4,000 sets" in said["Inter-annotator agreement is unknown"]
    captions = {chart.name: chart.caption for chart in report.document.charts()}
    assert "from 0.508 (ge, labels swapped) to 0.812 (gt)" in captions["rules"]
    assert "rho = 0.155" in captions["spearman"]


def with_systems(release: Release, first: str, second: str) -> Release:
    return replace(
        release,
        preferences=release.preferences.assign(system_1=first, system_2=second),
        sets=release.sets.assign(system=release.sets["side"].map({1: first, 2: second})),
    )
