"""What a release says of the study's instrument: its scale, and the owner's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hsfiq.db.tables import Study
from hsfiq.study.config import config_of
from hsfiq.study.instrument import LABELS

SCORED = ("pair", "single")
"""The question kinds whose sets are scored."""


def instrument_of(study: Study) -> dict[str, Any]:
    """The manifest's entries; texts that the owner has not worded are the app's in each language.

    Without the owner's anchors they are null, and so are the languages of an imported study.
    """
    config = config_of(study)
    wording = config.wording
    entries: dict[str, Any] = {}
    if study.kind in SCORED:
        entries["scale"] = {"points": wording.points, "anchors": list(wording.anchors) or None}
    elif study.kind == "images":
        entries["scale"] = {
            "levels": config.design.levels,
            "anchors": list(wording.levels) or None,
        }
    if study.kind == "pair":
        entries["ties_allowed"] = study.ties_allowed
    is_known = study.origin != "imported"
    entries["languages"] = list(config.study.languages) if is_known else None
    entries["wording"] = {
        name: text for name, text in asdict(wording).items() if text and name not in LABELS
    }
    return entries


def instrument_section(manifest: Mapping[str, Any]) -> str:
    """The card's section about the scale and the owner's words; empty if both are standard."""
    scale, wording = manifest.get("scale") or {}, manifest.get("wording") or {}
    lines = [f"- {name}: {text}\n" for name, text in wording.items()]
    if scale.get("anchors"):
        first = 1 if "points" in scale else 0
        lines += [
            f"- {'score' if first else 'level'} {value}: {anchor or '(no text)'}\n"
            for value, anchor in enumerate(scale["anchors"], start=first)
        ]
    if not lines:
        return ""
    languages = ", ".join(f"`{language}`" for language in manifest["languages"])
    return (
        "## The question in the study's words\n\n"
        f"Other texts were those of the app ({languages}).\n\n{''.join(lines)}\n"
    )
