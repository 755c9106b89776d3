"""The dataset card of a release: its README.md, which `datasets.load_dataset` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hsfiq.releases.cards.front_matter import front_matter
from hsfiq.releases.cards.sections import (
    citation_section,
    judges_section,
    licence_section,
    limits_section,
    pairs_section,
    table_1_section,
)
from hsfiq.releases.cards.table_section import table_section
from hsfiq.releases.filters import NOT_RECORDED
from hsfiq.releases.instrument.words import instrument_section
from hsfiq.releases.kinds import ReleaseKind
from hsfiq.study.config import CHOSEN_BY
from hsfiq.text import count_text

SPLIT_RULES = {
    "triplet": "Test questions are about a held-out triplet, in either order of its captions.",
    "participant": "Test questions were answered by a held-out participant.",
    "both": "Test questions are about a held-out triplet and were answered by a held-out "
    "participant, train questions neither; the others are unused, so that nothing leaks.",
}


def card(manifest: Mapping[str, Any], schemas: Mapping[str, pa.Schema], kind: ReleaseKind) -> str:
    """Return the card as Markdown; its front matter tells `datasets` where the tables are."""
    counts, funnel = manifest["counts"], manifest["funnel"]
    # `datasets` cannot load a table without rows.
    loadable = [table for table in schemas if manifest["rows"].get(table, 1)]
    steps = "".join(
        f"| {step['rule']} | {step_text(step)} | {step['left']:,} |\n" for step in funnel["steps"]
    )
    all_tables = kind.all_tables()
    tables = "\n".join(table_section(all_tables[table]) for table in schemas)
    simulated = (
        "> The answers of this release come from **simulated annotators**, not from people.\n\n"
        if manifest["simulated"]
        else ""
    )
    sets = f"{counts['sets']:,} {kind.sets_are}, " if kind.sets_are else ""
    chosen = (
        choice_section(manifest[CHOSEN_BY]) if CHOSEN_BY in manifest else pairs_section(manifest)
    )
    without_lines = "; `images` as `.parquet` alone" if "images" in schemas else ""
    title = f"{manifest['name']} {manifest['version']}"
    return (
        f"---\n{front_matter(manifest, loadable, kind)}---\n\n# {title}\n\n{simulated}"
        f"{manifest['title']}: {kind.about} for composed image retrieval. "
        f"{count_text(counts['questions'], 'question')} about "
        f"{count_text(counts['queries'], 'query', 'queries')}, "
        f"{sets}{count_text(counts['participants'], 'participant')}."
        f"{' ' if kind.other else ''}{kind.other}\n\n"
        f"{licence_section(manifest)}{citation_section(manifest)}"
        f"{instrument_section(manifest)}{judges_section(manifest)}"
        f"{chosen}"
        f"## What was dropped\n\n| rule | dropped | left |\n|---|---|---|\n"
        f"| (assigned) | | {funnel['assigned']:,} |\n{steps}\n{table_1_section(manifest)}"
        f"{limits_section(manifest, kind)}"
        f"{split_section(manifest['split']) if 'split' in manifest else ''}"
        f"## Tables\n\nEach as `.parquet` and `.jsonl`{without_lines}.\n\n{tables}\n"
        f"Made by {manifest['tool']['name']} {manifest['tool']['version']}; "
        "`manifest.json` holds the digest of every file.\n"
    )


def step_text(step: Mapping[str, Any]) -> str:
    """How many questions a step of the funnel dropped."""
    return NOT_RECORDED if step["dropped"] is None else f"{step['dropped']:,}"


def choice_section(chosen_by: Mapping[str, Any]) -> str:
    """Describe how the pairs of a follow-up study were chosen."""
    how = (
        "at random"
        if chosen_by["strategy"] == "random"
        else "by how much their answers would tell a scorer that was uncertain about them "
        f"({chosen_by['uncertainty']}), so they are **not a random sample**: how often metrics "
        "agree with these answers is not how often they agree in general"
    )
    scorers = "".join(f"- scorer `{digest}`\n" for digest in chosen_by.get("scorers", ()))
    return (
        "## How the pairs were chosen\n\nFrom the pairs that no study had used, equally many of "
        f"each category and of each two systems, {how}. Seed {chosen_by['seed']}.\n\n"
        + (f"{scorers}\n" if scorers else "")
    )


def split_section(split: Mapping[str, Any]) -> str:
    parts = "".join(f"| {part} | {count:,} |\n" for part, count in split["n"].items())
    return (
        f"## Split\n\nBy {split['by']}, test share {split['test_share']}, seed {split['seed']}; "
        f"held out: {split['held_out_triplets']:,} triplets, "
        f"{split['held_out_participants']:,} participants. {SPLIT_RULES[split['by']]}\n\n"
        f"| part | questions |\n|---|---|\n{parts}\n"
    )
