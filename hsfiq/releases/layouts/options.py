"""What an export adds to a release's tables, or leaves out of them, because its owner says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hsfiq.study.publication import LeftOut, Publication

Layout = Literal["hpfiq", "trl", "csv", "webdataset"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True, slots=True)
class Extras:
    """The options of an export that concern its files.

    Attributes:
        layouts: further files, made of the tables.
        images: whether the image files are packed.
        without: what is left out: the texts that participants wrote (reasons, and answers to extra
            questions that ask for a text), or the answers to questions at the end.
        publication: in place of the study's `[release]`.
    """

    layouts: tuple[Layout, ...] = ()
    images: bool = False
    without: tuple[LeftOut, ...] = ()
    publication: Publication | None = None
