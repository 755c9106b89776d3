"""Helpers for the tests of reports."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from tests.analysis.studies import bootstrap_of

XHTML = "{http://www.w3.org/1999/xhtml}"
SPECIAL_CHARACTERS = 'a<b>&"c"_%$#{x}~^\\'


def quick_bootstrap(release: Release) -> Bootstrap:
    """Enough resamples for tests that do not check the intervals."""
    return bootstrap_of(release, 40)


def with_systems(release: Release, first: str, second: str) -> Release:
    """The release with these systems behind all sets 1 and all sets 2."""
    return replace(
        release,
        preferences=release.preferences.assign(system_1=first, system_2=second),
        sets=release.sets.assign(system=release.sets["side"].map({1: first, 2: second})),
    )


def read_csv(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def check_page(html: str) -> ET.Element:
    """Check that a page is well-formed and self-contained, and that links and labels resolve.

    An XML parser rejects unclosed tags and unescaped characters.
    """
    root = ET.fromstring(html.removeprefix("<!DOCTYPE html>"))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for element in root.iter():
        for key, value in element.attrib.items():
            if key.rpartition("}")[2] in {"href", "src", "data"}:
                assert value.startswith("#"), value
            for target in re.findall(r"url\((.*?)\)", value):
                assert target.strip("\"'").startswith("#"), value
        if element.tag == f"{XHTML}a":
            assert element.get("href", "")[1:] in ids
        for label in (element.get("aria-labelledby"), element.get("aria-describedby")):
            assert label is None or label in ids
    text = ET.tostring(root, encoding="unicode")
    assert "<script" not in text
    assert "@import" not in text
    tables = list(root.iter(f"{XHTML}table"))
    assert all(table.find(f"{XHTML}caption") is not None for table in tables)
    assert len(list(root.iter(f"{XHTML}h1"))) == 1
    return root


def check_latex(text: str) -> None:
    """Check each float: braces and environments close, and all rows have a cell for each column."""
    floats = re.split(r"(?=\\begin\{table)", text)[1:]
    assert floats
    for each in floats:
        check_float(each)


def check_float(text: str) -> None:
    bare = re.sub(r"\\[{}&%$#_\\]", "", text.replace(r"\\", ""))
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin\{(\S+?)\}", text) == re.findall(r"\\end\{(\S+?)\}", text)[::-1]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(columns[1]) - 1, row
    assert not re.search(r"(?<!\\)[%#_^~]", re.sub(r"\\(label|textasciitilde\{\}).*", "", text))
