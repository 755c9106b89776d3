"""CLIP's tokenizer, made from OpenAI's file of merges; nothing is downloaded."""

from __future__ import annotations

import gzip
import zlib
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hsfiq.errors import HsfiqError, UnreadableInput

MERGES_FILE = "bpe_simple_vocab_16e6.txt.gz"
MERGES_URL = f"https://github.com/openai/CLIP/raw/main/clip/{MERGES_FILE}"

N_MERGES = 49152 - 256 - 2
"""The file lists more, which no published model uses."""

_STRAIGHT_QUOTES = str.maketrans(
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "''''" + 4 * '"'
)

START, END = "<|startoftext|>", "<|endoftext|>"


def find_merges(folder: Path) -> Path:
    """The file of merges in a folder of weights, or else in an installed open_clip.

    UnreadableInput, with the file's address, if neither has it.
    """
    # Not imported: it needs torchvision, which is not installed with every torch.
    open_clip = find_spec("open_clip")
    installed = (open_clip and open_clip.submodule_search_locations) or ()
    for place in (folder, *map(Path, installed)):
        if (place / MERGES_FILE).is_file():
            return place / MERGES_FILE
    raise UnreadableInput(
        str(folder / MERGES_FILE),
        f"CLIP's tokenizer lacks its merges ({MERGES_URL})",
        "download the file there, or name the folder that has it with --weights",
    )


def read_merges(file: Path) -> list[tuple[str, str]]:
    """Read the pairs that CLIP's tokenizer merges, most frequent first."""
    try:
        lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UnreadableInput(
            str(file), f"is not the file of CLIP's merges ({error})", "download it again"
        ) from error
    merges = []
    for number, line in enumerate(lines[1 : N_MERGES + 1], start=2):
        first, space, second = line.partition(" ")
        if line and (not space or " " in second):
            raise UnreadableInput(
                f"{file}, line {number}", "is not a pair of parts", "download the file again"
            )
        if line:
            merges.append((first, second))
    return merges


def tokenizer_of(merges: list[tuple[str, str]]) -> Any:
    """Make a CLIPTokenizer with the ids of OpenAI's tokenizer; HsfiqError without transformers."""
    try:
        from transformers import CLIPTokenizer  # noqa: PLC0415 -- takes seconds
    except ImportError as error:
        raise HsfiqError(
            f"CLIP's tokenizer needs transformers 5 ({error}): pip install 'hsfiq[hf]'"
        ) from error
    letters = byte_letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += ["".join(pair) for pair in merges]
    words += [START, END]
    make: Any = CLIPTokenizer  # its type does not say that it takes pairs
    return make(vocab={word: i for i, word in enumerate(words)}, merges=merges)


def byte_letters() -> list[str]:
    """The letter that stands for each byte, in the order of their ids: printable ones first."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = len(set(range(256)) - set(printable))
    return [chr(code) for code in (*printable, *range(256, 256 + others))]


def cleaned(text: str) -> str:
    """Replace HTML's entities and curly quotes, as OpenAI's code does.

    The tokenizer itself normalises case and spaces. Not repeated here: repairing text that was
    decoded wrongly, which OpenAI's code leaves to ftfy.
    """
    return unescape(unescape(text)).translate(_STRAIGHT_QUOTES).strip()
