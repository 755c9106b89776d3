"""Sections of a dataset card: licence and citation, who judged, limits, the papers' Table 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hsfiq.releases.kinds import ReleaseKind
from hsfiq.releases.privacy.uniqueness import ALIKE
from hsfiq.study.publication import licence_address
from hsfiq.text import count_text

PAPERS_QUESTIONS, PAPERS_IRRELEVANT, PAPERS_CONTRADICTING = 3_050, 307, 28
"""The papers' Table 1: 3,050 questions, 2,743 in HS-FashionIQ, 2,715 in HP-FashionIQ."""

PAPERS_CITATION = """@inproceedings{kwak2025qure,
  title = {{QuRe}: Query-Relevant Retrieval through Hard Negative Sampling in Composed Image \
Retrieval},
  author = {Kwak, Jaehyun and Inhar, Ramahdani Muhammad Izaaz and Yun, Se-Young and Lee, Sung-Ju},
  booktitle = {International Conference on Machine Learning},
  year = {2025}
}"""

RECRUITED = {
    "open": "Anybody with the link could take part.",
    "invitation": "They were invited.",
    "prolific": "They were recruited on Prolific.",
    "mturk": "They were recruited on Mechanical Turk.",
}


def licence_section(manifest: Mapping[str, Any]) -> str:
    publication = manifest["publication"]
    licence = publication["licence"]
    if licence:
        text = (
            f"The licence of the answers and the tables is [{licence}]({licence_address(licence)})."
        )
    elif is_published_file(manifest):
        text = (
            "**No licence is stated.** The answers were imported from a published file, which "
            "names none; ask its authors before you use them for more than the law allows."
        )
    else:
        text = "**No licence is stated**, so nobody may use this release without asking its owner."
    contact = f" Contact: {publication['contact']}." if publication["contact"] else ""
    place = f" Published at <{publication['url']}>." if publication["url"] else ""
    images = (
        " The images are not in the release and have their own licences; image ids are those of "
        f"{' and '.join(manifest['datasets'])}."
    )
    if "images" in manifest:
        images = " The owner of the study decided to publish the images in the release."
    return f"## Licence\n\n{text}{images}{contact}{place}\n\n"


def citation_section(manifest: Mapping[str, Any]) -> str:
    entry = citation_of(manifest)
    if entry is None:
        return "## Citation\n\nThe owner of the study has named no authors and no citation.\n\n"
    return f"## Citation\n\n```bibtex\n{entry.strip()}\n```\n\n"


def citation_of(manifest: Mapping[str, Any]) -> str | None:
    """BibTeX: the owner's, or made of the authors, or that of the published file."""
    publication = manifest["publication"]
    if publication["citation"]:
        return str(publication["citation"])
    if publication["authors"]:
        url = f",\n  url = {{{publication['url']}}}" if publication["url"] else ""
        key = re.sub(r"[^A-Za-z0-9-]", "-", manifest["name"])
        return (
            f"@misc{{{key},\n  title = {{{{{manifest['title']}}}}},\n"
            f"  author = {{{' and '.join(publication['authors'])}}},\n"
            f"  note = {{Version {manifest['version']}}}{url}\n}}"
        )
    return PAPERS_CITATION if is_published_file(manifest) else None


def is_published_file(manifest: Mapping[str, Any]) -> bool:
    """Whether the answers come from a file in the layout of the published HP-FashionIQ."""
    return manifest["origin"] == "imported" and "source_sha256" in manifest


def judges_section(manifest: Mapping[str, Any]) -> str:
    """Who judged, in counts only."""
    counts, design = manifest["counts"], manifest.get("design")
    if manifest["simulated"]:
        judges = f"{count_text(counts['participants'], 'simulated annotator')}, not people"
    else:
        judges = f"{count_text(counts['participants'], 'person', 'people')}"
    recruited = (
        f" {RECRUITED[design['recruitment']]}" if design and not manifest["simulated"] else ""
    )
    mean = counts["questions"] / counts["participants"]
    return (
        f"## Who judged\n\n{judges}, with {mean:,.1f} kept questions each on average.{recruited} "
        "Participants have pseudonyms; the release has no ids of recruitment platforms.\n\n"
    )


def pairs_section(manifest: Mapping[str, Any]) -> str:
    """How the queries and what was judged of them were chosen, of a study that was drawn here."""
    design = manifest.get("design")
    if design is None:
        if not is_published_file(manifest):
            return ""
        return (
            "## How the pairs were chosen\n\nThe published file does not say; it names no "
            "systems. Text and order of the sets are as published.\n\n"
        )
    sample = f"{design['sample']:,} drawn at random" if design["sample"] else "all that were chosen"
    shown = "best first" if design["image_order"] == "ranked" else "in an order drawn at random"
    return (
        "## How the items were chosen\n\n"
        f"The queries are of `{design['queries_from']}`, {sample}. Which systems a query is shown "
        "with, on which side, and to whom, was drawn once, from the seed; "
        f"images were shown {shown}. Each query was for "
        f"{count_text(design['annotators_per_query'], 'participant')}"
        f"{overlap_text(design)}. Seed {design['seed']}.\n\n"
    )


def overlap_text(design: Mapping[str, Any]) -> str:
    share = design["overlap_share"]
    if share == 1 or design["annotators_per_query"] == 1:
        return ""
    return f" (a share of {share:g} of the queries; the others for one)"


def limits_section(manifest: Mapping[str, Any], kind: ReleaseKind) -> str:
    lines = "".join(f"- {line}\n" for line in (*limits(manifest, kind), *manifest["notes"]))
    return f"## Limits, and what was not recorded\n\n{lines}\n"


def limits(manifest: Mapping[str, Any], kind: ReleaseKind) -> Iterator[str]:
    if manifest["simulated"]:
        yield "Simulated answers say nothing about people."
    if alike := manifest.get(ALIKE):
        yield alike_text(alike)
    if "sets" in kind.all_tables():
        yield "People judged the images that a set shows, and not the ranking below them."
    tables = kind.all_tables()
    for table, names in manifest["not_recorded"].items():
        by_rule: dict[str | None, list[str]] = {}
        for name in names:
            by_rule.setdefault(tables[table][name].null, []).append(f"`{name}`")
        for rule, columns in by_rule.items():
            yield f"`{table}`: {', '.join(columns)}: null in every row ({rule})."
    steps = manifest["funnel"]["steps"]
    for step in steps:
        if step["dropped"] is None:
            yield f"The rule `{step['rule']}` was asked for, and what it needs was not recorded."


def alike_text(alike: Mapping[str, Any]) -> str:
    """How many participants have the same answers at the end."""
    names = ", ".join(f"`{name}`" for name in alike["fields"])
    return (
        f"By their answers to {names} in `{alike['table']}`, the smallest group of participants "
        f"that nothing tells apart has {alike['k']:,} of {alike['participants']:,} (k = "
        f"{alike['k']}); {alike['unique']:,} {'is' if alike['unique'] == 1 else 'are'} alone in "
        "theirs. Whoever knows these facts about a person could find their answers."
    )


def table_1_section(manifest: Mapping[str, Any]) -> str:
    """The papers' Table 1, as far as the published file allows."""
    if not is_published_file(manifest) or manifest["kind"] not in ("hs", "hp"):
        return ""
    funnel = manifest["funnel"]
    dropped = {step["rule"]: step["dropped"] for step in funnel["steps"]}
    contradicting = (
        f"{dropped['contradicts']:,}" if "contradicts" in dropped else "filter not applied"
    )
    left = PAPERS_QUESTIONS - PAPERS_IRRELEVANT
    in_all = (
        ""
        if funnel["assigned"] == PAPERS_QUESTIONS
        else f" The imported file has {funnel['assigned']:,} of the papers' questions."
    )
    return (
        "## The papers' Table 1\n\n| | papers | this release |\n|---|---|---|\n"
        f"| questions | {PAPERS_QUESTIONS:,} | {funnel['assigned']:,} |\n"
        f"| flagged irrelevant | {PAPERS_IRRELEVANT:,} | flags were not published |\n"
        f"| left: HS-FashionIQ | {left:,} | cannot be redone |\n"
        f"| preferred set scored lower | {PAPERS_CONTRADICTING} (of those left) | "
        f"{contradicting} (of all) |\n"
        f"| left: HP-FashionIQ | {left - PAPERS_CONTRADICTING:,} | {funnel['kept']:,} kept here |\n"
        f"\nThe flag `irrelevant` is null, and not false: it is unknown.{in_all}\n\n"
    )
