"""The dataset card of a release: its README.md, which `datasets.load_dataset` reads."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.db.tables import Study
from hsfiq.kinds import KINDS, ReleaseKind
from hsfiq.kinds.tables import CONTENT, IMAGES, Column, Table
from hsfiq.releases.privacy import ALIKE
from hsfiq.study.config import CHOSEN_BY, config_of
from hsfiq.study.filters import NOT_RECORDED
from hsfiq.study.instrument import LABELS
from hsfiq.study.publication import ADDED, ADDRESS, Publication, earlier_of, licence_address
from hsfiq.text import count_text

# The columns of a release's tables that hold no value at all: what was never recorded.


def empty_columns_of(
    folder: Path, present: Collection[str], kind: ReleaseKind
) -> dict[str, list[str]]:
    """Columns by table, of the present tables with such columns."""
    names = {
        name: empty_columns(folder / f"{name}.parquet", table)
        for name, table in kind.all_tables().items()
        if name in present
    }
    return {name: columns for name, columns in names.items() if columns}


def empty_columns(file: Path, table: Table) -> list[str]:
    """The nullable columns that are null in every row, from the statistics of the Parquet file."""
    metadata = pq.read_metadata(file)
    with_values: set[str] = set()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            statistics = column.statistics
            nulls = None if statistics is None else statistics.null_count
            if nulls is None or nulls < column.num_values:
                with_values.add(column.path_in_schema.split(".")[0])
    if not metadata.num_rows:
        return []
    return [column.name for column in table if column.null and column.name not in with_values]


# What the manifest says of a release besides its tables, for the card and for croissant.json.

NO_LICENCE = (
    "no license set: others may not reuse this release; set one under [release] in study.toml, or "
    "with --about"
)


def publication_facts(publication: Publication) -> dict[str, Any]:
    """The manifest's entries; unstated entries are null."""
    return {
        name: (list(value) if isinstance(value, tuple) else value) or None
        for name, value in asdict(publication).items()
        if value or name not in ADDED
    }


def title_of(manifest: Mapping[str, Any]) -> str:
    """The owner's name for the release, or else its id, with its version."""
    return f"{manifest['publication'].get('name') or manifest['name']} {manifest['version']}"


def study_facts(study: Study) -> dict[str, Any]:
    """The design of a study that was drawn here; empty for an imported study.

    For a study imported from a release, the design that the release states.
    """
    if (earlier := earlier_of(study)).source:
        return dict(earlier.facts)
    if study.source_sha256 is not None:
        return {"source_sha256": study.source_sha256}
    if study.origin == "imported" or not study.design:
        return {}
    config = config_of(study)
    design, queries = config.design, config.queries
    return {
        "design": {
            "queries_from": queries.dataset,
            "sample": queries.sample or None,
            "annotators_per_query": design.annotators_per_query,
            "overlap_share": design.overlap_share,
            "image_order": design.image_order,
            "seed": design.seed,
            "recruitment": config.recruitment.mode,
            **({"panel": panel.name} if (panel := config.recruitment.panel) else {}),
        }
    }


# The YAML at the top of a dataset card, which the Hugging Face hub and `datasets` read.

ENGLISH = frozenset({"cirr", "circo", "drawn", "fashioniq"})
"""Datasets whose texts are English."""

SIZES = {
    1_000: "n<1K",
    10_000: "1K<n<10K",
    100_000: "10K<n<100K",
    1_000_000: "100K<n<1M",
    10_000_000: "1M<n<10M",
}


def front_matter(manifest: Mapping[str, Any], tables: Iterable[str], kind: ReleaseKind) -> str:
    """The YAML; each of `tables` and each layout with parts becomes a configuration."""
    values: dict[str, Any] = {"pretty_name": title_of(manifest)}
    licence = manifest["publication"]["licence"]
    if licence and ADDRESS.fullmatch(licence):
        values |= {"license": "other", "license_link": licence}
    elif licence:
        values["license"] = licence.lower()
    if languages := languages_of(manifest):
        values["language"] = languages
    if manifest["simulated"]:
        values["annotations_creators"] = ["machine-generated"]
    values["size_categories"] = [size_category(manifest["counts"]["questions"])]
    values["task_categories"] = list(kind.tasks)
    values["tags"] = ["composed-image-retrieval", "image-retrieval", *kind.tags]
    configs = [
        {"config_name": table, "data_files": f"{table}.parquet"}
        | ({"default": True} if table == kind.default_table else {})
        for table in tables
    ]
    if "images" in manifest:
        values["dataset_info"] = [{"config_name": "images", "features": image_features()}]
    values["configs"] = configs + part_configs(manifest) + trl_config(manifest)
    return "".join(yaml_lines(values))


def image_features() -> list[dict[str, Any]]:
    """The columns of `images`, so that `datasets` decodes the files."""
    return [
        {
            "name": column.name,
            "dtype": "image" if column.type == CONTENT else str(column.arrow_type),
        }
        for column in IMAGES
    ]


def part_configs(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A configuration for each table that also exists in parts, with a split for each part."""
    return [
        {
            "config_name": f"{table}-by-part",
            "data_files": [{"split": part, "path": path} for part, path in files.items()],
        }
        for table, files in manifest.get("parts", {}).items()
    ]


def trl_config(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    files: list[str] = manifest.get("layouts", {}).get("trl", [])
    if len(files) == 1:
        return [{"config_name": "trl", "data_files": files[0]}]
    splits = [{"split": trl_part(path), "path": path} for path in files]
    return [{"config_name": "trl", "data_files": splits}] if splits else []


def trl_part(path: str) -> str:
    """Which part of the split a file has: `trl-train.parquet` has train."""
    return path.removeprefix("trl-").removesuffix(".parquet")


def languages_of(manifest: Mapping[str, Any]) -> list[str]:
    """The languages of the queries' texts, where known, else of the study's pages."""
    datasets = manifest["datasets"]
    if datasets and ENGLISH.issuperset(datasets):
        return ["en"]
    return [tag.partition("-")[0] for tag in manifest["languages"] or ()]


def size_category(n: int) -> str:
    """The hub's size category for a number of questions.

    >>> size_category(3050), size_category(20_000_000)
    ('1K<n<10K', 'n>10M')
    """
    return next((name for most, name in SIZES.items() if n < most), "n>10M")


def yaml_lines(values: Mapping[str, Any]) -> Iterable[str]:
    """YAML of texts, lists of texts and lists of mappings; every text that needs it is quoted."""
    for key, value in values.items():
        if not isinstance(value, list):
            yield f"{key}: {scalar(value)}\n"
            continue
        yield f"{key}:\n"
        for member in value:
            if isinstance(member, str):
                yield f"- {scalar(member)}\n"
                continue
            for number, line in enumerate(yaml_lines(member)):
                yield f"{'  ' if number else '- '}{line}"


def scalar(value: str | bool) -> str:
    """A text quoted as in JSON, which YAML accepts; plain names are not quoted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    is_plain = value[:1].isalpha() and all(c.isalnum() or c in " -_./<" for c in value)
    is_word = value.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return value if is_plain and not is_word else json.dumps(value, ensure_ascii=False)


# Sections of a dataset card: licence and citation, who judged, limits, the papers' Table 1.

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
    "open": "Participation was open to anybody with the link.",
    "invitation": "Participants were invited.",
    "prolific": "Participants were recruited on Prolific.",
    "mturk": "Participants were recruited on Mechanical Turk.",
    "panel": "Participants were recruited on {panel}.",
}


def licence_section(manifest: Mapping[str, Any]) -> str:
    publication = manifest["publication"]
    licence = publication["licence"]
    if licence:
        text = (
            f"The license of the answers and the tables is [{licence}]({licence_address(licence)})."
        )
    elif is_published_file(manifest):
        text = (
            "**No license is stated.** The answers were imported from a published file without a "
            "license; ask its authors for permission before you reuse the answers."
        )
    else:
        text = "**No license is set**: others may not reuse this release without asking its owner."
    contact = f" Contact: {publication['contact']}." if publication["contact"] else ""
    place = f" Published at <{publication['url']}>." if publication["url"] else ""
    images = (
        " The release does not contain the images, which have their own licenses; image ids are "
        "those of "
        f"{' and '.join(manifest['datasets'])}."
    )
    if "images" in manifest:
        images = " The owner of the study decided to publish the images in the release."
    return f"## License\n\n{text}{images}{contact}{place}\n\n"


def citation_section(manifest: Mapping[str, Any]) -> str:
    entry = citation_of(manifest)
    if entry is None:
        return "## Citation\n\nThe study's owner has provided neither authors nor a citation.\n\n"
    return f"## Citation\n\n```bibtex\n{entry.strip()}\n```\n\n"


def citation_of(manifest: Mapping[str, Any]) -> str | None:
    """BibTeX: the owner's, or generated from the authors, or that of the published file."""
    publication = manifest["publication"]
    if publication["citation"]:
        return str(publication["citation"])
    if publication["authors"]:
        url = f",\n  url = {{{publication['url']}}}" if publication["url"] else ""
        key = re.sub(r"[^A-Za-z0-9-]", "-", manifest["name"])
        return (
            f"@misc{{{key},\n  title = {{{{{publication.get('name') or manifest['title']}}}}},\n"
            f"  author = {{{' and '.join(publication['authors'])}}},\n"
            f"  note = {{Version {manifest['version']}}}{url}\n}}"
        )
    return PAPERS_CITATION if is_published_file(manifest) else None


def is_published_file(manifest: Mapping[str, Any]) -> bool:
    """Whether the answers come from a file in the layout of the published HP-FashionIQ."""
    return manifest["origin"] == "imported" and "source_sha256" in manifest


def judges_section(manifest: Mapping[str, Any]) -> str:
    """The counts of participants and answers."""
    counts, design = manifest["counts"], manifest.get("design")
    if manifest["simulated"]:
        judges = f"{count_text(counts['participants'], 'simulated annotator')}, not people"
    else:
        judges = f"{count_text(counts['participants'], 'person', 'people')}"
    recruited = ""
    if design and not manifest["simulated"]:
        text = RECRUITED[design["recruitment"]]
        recruited = f" {text.format(panel=design.get('panel', 'a panel'))}"
    mean = counts["questions"] / counts["participants"]
    return (
        f"## Who judged\n\n{judges}, with {mean:,.1f} kept questions each on average.{recruited} "
        "Participants are pseudonymous; the release contains no ids of recruitment platforms.\n\n"
    )


def pairs_section(manifest: Mapping[str, Any]) -> str:
    """The selection of queries and judged items, for a study that was drawn here."""
    design = manifest.get("design")
    if design is None:
        if not is_published_file(manifest):
            return ""
        return (
            "## How the pairs were chosen\n\nThe published file names neither the procedure nor "
            "the systems. Texts and the order of the sets are as published.\n\n"
        )
    sample = f"{design['sample']:,} drawn at random" if design["sample"] else "all selected queries"
    shown = "best first" if design["image_order"] == "ranked" else "in an order drawn at random"
    return (
        "## How the items were chosen\n\n"
        f"The queries are from `{design['queries_from']}`, {sample}. The systems, sides and "
        f"participants of each query were drawn once, from the seed; images were shown {shown}. "
        f"Each query was for "
        f"{count_text(design['annotators_per_query'], 'participant')}"
        f"{overlap_text(design)}. Seed {design['seed']}.\n\n"
    )


def overlap_text(design: Mapping[str, Any]) -> str:
    share = design["overlap_share"]
    if share == 1 or design["annotators_per_query"] == 1:
        return ""
    return f" (a share of {share:g} of the queries; one for each other query)"


QUESTIONS = {
    "systems": "which of two systems people prefer",
    "metrics": "which of two metrics agrees better with people",
}


def plan_section(manifest: Mapping[str, Any]) -> str:
    """The plan that the owner declared before the study opened; empty without a plan."""
    plan = manifest.get("analysis")
    if plan is None:
        return ""
    opened = f" at {plan['opened_at']}" if plan["opened_at"] else ""
    between = f": {' or '.join(f'`{name}`' for name in plan['pair'])}" if plan["pair"] else ""
    margin = (
        "No equivalence margin was declared."
        if plan["margin"] is None
        else f"Differences of up to {plan['margin']:g} count as equivalent."
    )
    filters = ", ".join(f"`{name}`" for name in plan["exclusions"]) or "none"
    return (
        f"## Analysis plan\n\nThe owner declared this before the study opened{opened}. The "
        f"question is {QUESTIONS[plan['question']]}{between}. It is decided by "
        f"`{plan['statistic']}`, at the level {plan['alpha']:g}. {margin} "
        f"Filters of the export: {filters}.\n\n"
    )


def limits_section(manifest: Mapping[str, Any], kind: ReleaseKind) -> str:
    lines = "".join(f"- {line}\n" for line in (*limits(manifest, kind), *manifest["notes"]))
    return f"## Limits and unrecorded data\n\n{lines}\n"


def limits(manifest: Mapping[str, Any], kind: ReleaseKind) -> Iterator[str]:
    if manifest["simulated"]:
        yield "Simulated answers are not evidence about people."
    if alike := manifest.get(ALIKE):
        yield alike_text(alike)
    if "sets" in kind.all_tables():
        yield "People judged only the images shown in a set, not the ranks below them."
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
            yield f"The rule `{step['rule']}` was requested, but its input data were not recorded."


def alike_text(alike: Mapping[str, Any]) -> str:
    """The numbers of participants with identical answers at the end."""
    names = ", ".join(f"`{name}`" for name in alike["fields"])
    return (
        f"By their answers to {names} in `{alike['table']}`, the smallest group of "
        f"indistinguishable participants has {alike['k']:,} of {alike['participants']:,} (k = "
        f"{alike['k']}); {alike['unique']:,} {'is' if alike['unique'] == 1 else 'are'} unique. "
        f"Anybody who knows these facts about a person could find the person's answers."
    )


def table_1_section(manifest: Mapping[str, Any]) -> str:
    """The papers' Table 1, as far as the published file contains its data."""
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
        else f" The imported file contains {funnel['assigned']:,} of the papers' questions."
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


# A table of a release as Markdown, for the dataset card and for the documentation.


def table_section(table: Table) -> str:
    """The meaning of a row, and each column with its type, unit, meaning and null rule."""
    columns = "".join(
        f"| `{column.name}` | {described_type(column)} | {column.meaning} | {column.null or ''} |\n"
        for column in table
    )
    present = f" Present if {table.present}." if table.present else ""
    return (
        f"### {table.name}\n\n{capitalised(table.meaning)}.{present}\n\n"
        f"| column | type | meaning | null if |\n|---|---|---|---|\n{columns}"
    )


def described_type(column: Column) -> str:
    """The type with the unit: "number, in seconds"."""
    return f"{column.type_name}, in {column.unit}" if column.unit else column.type_name


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


# What a release says of the study's instrument: its scale, and the owner's words.


def instrument_of(study: Study) -> dict[str, Any]:
    """The manifest's entries; texts not written by the owner are the app's in each language.

    Without the owner's anchors, the anchors are null; the instrument and the languages of an
    imported study are null, too.
    """
    config = config_of(study)
    wording = config.wording
    is_known = study.origin != "imported"
    entries: dict[str, Any] = {"instrument": config.study.instrument if is_known else None}
    kind = KINDS[study.kind]
    if kind.scale == "points":
        entries["scale"] = {"points": wording.points, "anchors": list(wording.anchors) or None}
    elif kind.scale == "levels":
        entries["scale"] = {
            "levels": config.design.levels,
            "anchors": list(wording.levels) or None,
        }
    if kind.has_preferences:
        entries["ties_allowed"] = study.ties_allowed
    entries["languages"] = list(config.study.languages) if is_known else None
    entries["wording"] = {
        name: text for name, text in asdict(wording).items() if text and name not in LABELS
    }
    return entries


def instrument_section(manifest: Mapping[str, Any]) -> str:
    """The card's section about the instrument and the owner's words; empty if neither is known."""
    scale, wording = manifest.get("scale") or {}, manifest.get("wording") or {}
    lines = [f"- {name}: {text}\n" for name, text in wording.items()]
    if scale.get("anchors"):
        first = 1 if "points" in scale else 0
        lines += [
            f"- {'score' if first else 'level'} {value}: {anchor or '(no text)'}\n"
            for value, anchor in enumerate(scale["anchors"], start=first)
        ]
    instrument, languages = manifest.get("instrument"), manifest.get("languages")
    if not lines and not instrument:
        return ""
    named = f"of the instrument `{instrument}`" if instrument else "of the app"
    listed = ", ".join(f"`{language}`" for language in languages or ())
    texts = f"The pages showed the texts {named}{f' ({listed})' if listed else ''}"
    own = f", except for these texts of the study:\n\n{''.join(lines)}\n" if lines else ".\n\n"
    return f"## The questions\n\n{texts}{own}"


SPLIT_RULES = {
    "triplet": "Test questions are about a held-out triplet, in either order of its captions.",
    "participant": "Test questions were answered by a held-out participant.",
    "both": "Test questions are about a held-out triplet and were answered by a held-out "
    "participant, train questions are neither; other questions are unused to prevent leakage.",
}


def card(manifest: Mapping[str, Any], schemas: Mapping[str, pa.Schema], kind: ReleaseKind) -> str:
    """Return the card as Markdown; its front matter lists the tables for `datasets`."""
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
    stated = manifest["publication"].get("description")
    described = f"{stated.strip()}\n\n" if stated else ""
    return (
        f"---\n{front_matter(manifest, loadable, kind)}---\n\n# {title_of(manifest)}\n\n{simulated}"
        f"{described}"
        f"{manifest['title']}: {kind.about} for composed image retrieval. "
        f"{count_text(counts['questions'], 'question')} about "
        f"{count_text(counts['queries'], 'query', 'queries')}, "
        f"{sets}{count_text(counts['participants'], 'participant')}."
        f"{' ' if kind.other else ''}{kind.other}\n\n"
        f"{licence_section(manifest)}{citation_section(manifest)}"
        f"{instrument_section(manifest)}{judges_section(manifest)}"
        f"{chosen}{plan_section(manifest)}"
        f"## Dropped questions\n\n| rule | dropped | left |\n|---|---|---|\n"
        f"| (assigned) | | {funnel['assigned']:,} |\n{steps}\n{table_1_section(manifest)}"
        f"{limits_section(manifest, kind)}"
        f"{split_section(manifest['split']) if 'split' in manifest else ''}"
        f"## Tables\n\nEach as `.parquet` and `.jsonl`{without_lines}.\n\n{tables}\n"
        f"Generated by {manifest['tool']['name']} {manifest['tool']['version']}; `manifest.json` "
        f"holds the digest of every file.\n"
    )


def step_text(step: Mapping[str, Any]) -> str:
    """How many questions a step of the funnel dropped."""
    return NOT_RECORDED if step["dropped"] is None else f"{step['dropped']:,}"


def choice_section(chosen_by: Mapping[str, Any]) -> str:
    """Describe how the pairs of a follow-up study were chosen."""
    how = (
        "at random"
        if chosen_by["strategy"] == "random"
        else "by the expected information of their answers for a scorer "
        f"({chosen_by['uncertainty']}), so they are **not a random sample**: how often metrics "
        "agree with these answers is not how often they agree in general"
    )
    scorers = "".join(f"- scorer `{digest}`\n" for digest in chosen_by.get("scorers", ()))
    return (
        f"## How the pairs were chosen\n\nPairs not used in a study before, equally many of each "
        f"category and of each two systems, {how}. Seed {chosen_by['seed']}.\n\n"
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
