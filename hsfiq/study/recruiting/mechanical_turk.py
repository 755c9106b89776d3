"""A study as an ExternalQuestion of Mechanical Turk: its addresses, and the HITs in its links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote
from xml.sax.saxutils import escape

from hsfiq.public_url import PublicUrl
from hsfiq.study.config import PLATFORM_ID

PRODUCTION = "https://www.mturk.com"
SANDBOX = "https://workersandbox.mturk.com"

SITES = (PRODUCTION, SANDBOX, "https://worker.mturk.com")
"""The sites on which workers see a HIT, and to which its form may lead them."""

SUBMIT_PATH = "/mturk/externalSubmit"

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""The assignment id while a worker looks at a HIT without having accepted it."""

EXTERNAL_QUESTION = """\
<?xml version="1.0" encoding="UTF-8"?>
<ExternalQuestion xmlns="http://mechanicalturk.amazonaws.com/\
AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd">
  <ExternalURL>{url}</ExternalURL>
  <FrameHeight>{height}</FrameHeight>
</ExternalQuestion>
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """A HIT that a worker has accepted; it is sent to the origin `submit_to` at the end."""

    assignment_id: str
    hit_id: str
    submit_to: str

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Self | None:
        """The HIT that a link names, None if a part is missing or not valid."""
        assignment_id, hit_id = (parameters.get(name, "") for name in ("assignmentId", "hitId"))
        submit_to = parameters.get("turkSubmitTo", "").removesuffix("/")
        are_ids = PLATFORM_ID.fullmatch(assignment_id) and PLATFORM_ID.fullmatch(hit_id)
        if not are_ids or submit_to not in (PRODUCTION, SANDBOX):
            return None
        return cls(assignment_id, hit_id, submit_to)


def external_question(study: str, public: PublicUrl, height: int) -> str:
    """The XML of a study for CreateHIT; a `height` of 0 fits the frame to the worker's window."""
    url = f"{public}start?study={quote(study, safe='')}"
    return EXTERNAL_QUESTION.format(url=escape(url), height=height)
