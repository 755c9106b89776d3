"""Verifying a release folder as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hsfiq.releases.checking.answers import check_answers
from hsfiq.releases.checking.counts import (
    check_alike,
    check_counts,
    check_funnel,
    check_queries_are_used,
)
from hsfiq.releases.checking.files import (
    check_content_digest,
    check_croissant,
    check_files,
    check_tables_are_there,
)
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.further import check_further
from hsfiq.releases.checking.parts import check_split
from hsfiq.releases.checking.references import RowOwners, check_references, index_keys
from hsfiq.releases.checking.repeats import check_lines, check_rebuilt, check_repeated_tables
from hsfiq.releases.checking.scratch import Scratch, scratch
from hsfiq.releases.checking.tables import ReleaseFolder, open_release
from hsfiq.releases.checking.values import check_columns, check_values

OWNED = ("question_id", "participant_id")


def verify(folder: Path) -> Findings:
    """What is wrong with the release in a folder: no finding if it is what it says.

    Raises:
        UnreadableInput: the folder is no release.
    """
    release, findings = open_release(folder), Findings()
    check_files(release, findings)
    check_content_digest(release, findings)
    check_tables_are_there(release, findings)
    check_croissant(release, findings)
    for name in release.tables:
        check_columns(release, name, findings)
    comparable = {}
    for name, table in release.tables.items():
        if check_values(release, name, findings):
            check_lines(release, name, findings)
            comparable[name] = table
    release = replace(release, tables=comparable)
    if release.kind.main not in release.tables:
        return findings
    with scratch() as ids:
        check_between(release, ids, findings)
    if not findings.n:
        check_rebuilt(release, findings)
    return findings


def check_between(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """What the tables, the manifest and the further files say of each other."""
    for table in release.tables.values():
        index_keys(release, table, ids, findings)
    for table in release.tables.values():
        check_references(release, table, ids, findings)
        if set(OWNED) & set(table.names):
            RowOwners(release, table, ids, findings).check()
    check_answers(release, ids, findings)
    check_funnel(release, ids, findings)
    check_counts(release, findings)
    check_alike(release, findings)
    check_queries_are_used(release, ids, findings)
    check_split(release, ids, findings)
    check_repeated_tables(release, findings)
    check_further(release, ids, findings)
