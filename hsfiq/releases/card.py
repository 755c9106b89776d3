"""The dataset card of a release: its README.md, which `datasets.load_dataset` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

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
    # `datasets` cannot load a table without rows; only `exclusions` can be empty.
    loadable = [
        table for table in schemas if table != "exclusions" or funnel["kept"] < funnel["assigned"]
    ]
    configs = "".join(
        f"- config_name: {table}\n  data_files: {table}.parquet\n"
        + ("  default: true\n" if table == kind.main else "")
        for table in loadable
    )
    steps = "".join(
        f"| {step['rule']} | {step_text(step)} | {step['left']:,} |\n" for step in funnel["steps"]
    )
    tables = "\n".join(
        f"### {table}\n\n{capitalised(kind.description(table))}.\n\n"
        f"Columns: {', '.join(f'`{column.name}`' for column in schema)}.\n"
        f"{column_list(kind.described_columns(table))}"
        for table, schema in schemas.items()
    )
    simulated = (
        "> The answers of this release come from **simulated annotators**, not from people.\n\n"
        if manifest["simulated"]
        else ""
    )
    sets = f"{counts['sets']:,} {kind.sets_are}, " if kind.sets_are else ""
    notes = "".join(f"- {note}\n" for note in manifest["notes"])
    return (
        f"---\npretty_name: {manifest['name']} {manifest['version']}\nconfigs:\n{configs}---\n\n"
        f"# {manifest['name']} {manifest['version']}\n\n{simulated}"
        f"{manifest['title']}: {kind.about} for composed image retrieval. "
        f"{count_text(counts['questions'], 'question')} about "
        f"{count_text(counts['queries'], 'query', 'queries')}, "
        f"{sets}{count_text(counts['participants'], 'participant')}.\n\n"
        f"{instrument_section(manifest)}"
        f"## What was dropped\n\n| rule | dropped | left |\n|---|---|---|\n"
        f"| (assigned) | | {funnel['assigned']:,} |\n{steps}\n{notes}"
        f"{choice_section(manifest[CHOSEN_BY]) if CHOSEN_BY in manifest else ''}"
        f"{split_section(manifest['split']) if 'split' in manifest else ''}"
        f"## Tables\n\nEach as `.parquet` and `.jsonl`.\n\n{tables}\n"
        f"Made by {manifest['tool']['name']} {manifest['tool']['version']}; "
        "`manifest.json` holds the digest of every file.\n"
    )


def step_text(step: Mapping[str, Any]) -> str:
    """How many questions a step of the funnel dropped."""
    return NOT_RECORDED if step["dropped"] is None else f"{step['dropped']:,}"


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def column_list(descriptions: Mapping[str, str]) -> str:
    """Describe the columns whose names do not say all."""
    lines = "".join(f"- `{name}`: {text}\n" for name, text in descriptions.items())
    return f"\n{lines}" if lines else ""


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
