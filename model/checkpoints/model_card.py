"""README.md beside a checkpoint: its model card, with the front matter that model hubs read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hsfiq.atomic_files import write_whole

CARD = "README.md"


def write_card(
    folder: Path,
    title: str,
    introduction: Iterable[str],
    sections: Mapping[str, Iterable[str]],
    *,
    tags: Iterable[str],
) -> None:
    """Write the card; the introduction is paragraphs, a section's text its lines by its heading."""
    lines = [
        "---",
        "library_name: hsfiq",
        f"tags: [{', '.join(('composed-image-retrieval', *tags))}]",
        "---",
        "",
        f"# {title}",
        "",
        *(line for paragraph in introduction for line in (paragraph, "")),
    ]
    for heading, section in sections.items():
        lines += [f"## {heading}", "", *section, ""]
    write_whole(folder / CARD, "\n".join(lines).encode())
