"""Guidelines and consent: Markdown read into blocks of plain text, which the page shows as text.

Headings, paragraphs and lists are all that they need; nothing in them becomes HTML.
"""

from __future__ import annotations

import re

from hsfiq.collect.protocol import TextBlock

ITEM = re.compile(r"(?:[-*+]|(\d+)[.)])\s+(.*)")
HEADING = re.compile(r"#+\s+(.*)")


def blocks(markdown: str) -> list[TextBlock]:
    """Read Markdown into blocks."""
    found: list[TextBlock] = []
    is_open = False  # whether the next plain line goes on with the block before it
    for line in markdown.splitlines():
        stripped = line.strip()
        if not stripped:
            is_open = False
        elif heading := HEADING.fullmatch(stripped):
            found.append({"kind": "heading", "lines": [plain(heading[1])]})
            is_open = False
        elif item := ITEM.fullmatch(stripped):
            block: TextBlock = {"kind": "steps" if item[1] else "list", "lines": []}
            if not found or found[-1]["kind"] != block["kind"]:
                found.append(block)
            found[-1]["lines"].append(plain(item[2]))
            is_open = True
        elif is_open:
            found[-1]["lines"][-1] += f" {plain(stripped)}"
        else:
            found.append({"kind": "paragraph", "lines": [plain(stripped)]})
            is_open = True
    return found


def plain(text: str) -> str:
    """The text without the marks for bold type and code."""
    return re.sub(r"\*\*(.+?)\*\*|`(.+?)`", lambda mark: mark[1] or mark[2], text)
