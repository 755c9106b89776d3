"""Recruitment: links to a study, addresses to return to, and Mechanical Turk's questions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, get_args
from urllib.parse import quote
from xml.sax.saxutils import escape

from hsfiq.public_url import PublicUrl

PLATFORM_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""The form of the platforms' ids; nothing else is accepted."""

Platform = Literal["prolific", "mturk", "panel"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
"""The modes in which a platform sends people by a link with their ids."""

Mode = Literal["open", "invitation", Platform]

PLACEHOLDER = re.compile(r"\{(person|study|session)\}")
"""A placeholder for an id in a panel's return address."""


@dataclass(frozen=True, slots=True)
class Panel:
    """`[recruitment.panel]`: a platform that sends people by a link with ids, and takes them back.

    `name` is what participants read. `person`, `study` and `session` are the parameters of its
    links that have the ids of the person, of its study, and of this visit ("": none). `link` is the
    query of the link that the owner enters there, with the panel's own placeholders for the ids
    ("": the panel adds them).

    The other keys are https addresses to which people return, by outcome ("": none). `{person}`,
    `{study}` and `{session}` in the addresses are replaced by the ids. Participants who fail too
    many checks go to `complete` if that outcome has neither an address nor a code.
    """

    name: str
    person: str
    study: str = ""
    session: str = ""
    link: str = ""
    complete: str = ""
    failed_checks: str = ""
    screen_out: str = ""
    quota_full: str = ""

    def parameters(self) -> dict[str, str]:
        """The parameters of a link, by the id that they have."""
        named = {"person": self.person, "study": self.study, "session": self.session}
        return {each: parameter for each, parameter in named.items() if parameter}

    def addresses(self) -> dict[str, str]:
        """The addresses to which people return, by their keys."""
        return {key: getattr(self, key) for _, key in ENDS.values()}

    def kept_ids(self) -> Sequence[str]:
        """The ids that are stored: that of the person, and what the addresses contain."""
        used = {name for each in self.addresses().values() for name in PLACEHOLDER.findall(each)}
        return [each for each in self.parameters() if each == "person" or each in used]


PROLIFIC = Panel(
    name="Prolific",
    person="PROLIFIC_PID",
    study="STUDY_ID",
    session="SESSION_ID",
    link="PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}",
)
"""Prolific replaces the names in braces; its addresses have the completion codes instead of ids."""


@dataclass(frozen=True, slots=True)
class Recruitment:
    """`[recruitment]`: how participants enrol, and the completion code that they get.

    `participants` limits the enrolments (0: the number of forms). `platform_study_id` is the
    STUDY_ID of the study on Prolific ("": any, until `hsfiq study bind`).

    `quotas` limits the participants of a category (default: the number of its forms).

    `enrolments_per_address` limits enrolments from one address per hour, by an open link or a
    platform's link (0: no limit). `unbegun_minutes` is the time after which a place without consent
    is freed (0: when the lease ends). With `signed_links`, a platform's ids are accepted only in
    the links of `hsfiq participant links`.

    Other outcomes may have separate codes: `failed_checks_code` after more than `max_failed_checks`
    failed gold and repeated questions (-1: no limit), `full_code` for late arrivals (both "": the
    usual code), and `declined_code` after a refusal or a screen-out ("": none). `panel` is only for
    `mode = "panel"`.
    """

    mode: Mode = "open"
    participants: int = 0
    quotas: Mapping[str, int] = field(default_factory=dict)
    enrolments_per_address: int = 20
    unbegun_minutes: int = 15
    signed_links: bool = False
    platform_study_id: str = ""
    completion_code: str = ""
    completion_url: str = ""
    max_failed_checks: int = -1
    failed_checks_code: str = ""
    full_code: str = ""
    declined_code: str = ""
    panel: Panel | None = None


def panel_of(recruitment: Recruitment) -> Panel | None:
    """The panel from which a study recruits; None without a panel."""
    return PROLIFIC if recruitment.mode == "prolific" else recruitment.panel


def platform_name(recruitment: Recruitment) -> str:
    """The name of the platform from which a study recruits; "" if there is none."""
    panel = panel_of(recruitment)
    return panel.name if panel else "Mechanical Turk" if recruitment.mode == "mturk" else ""


def panel_link(panel: Panel, root: str, study: str = "") -> str:
    """The link to the app at `root` that the owner enters at a panel; it names a study if given."""
    named = f"study={quote(study, safe='')}" if study else ""
    return f"{root.rstrip('/')}/start?{'&'.join(filter(None, (panel.link, named)))}"


# The completion code and the address to return to, by the outcome of a participation.

Outcome = Literal["done", "failed-checks", "full", "declined"]


ENDS: dict[Outcome, tuple[str, str]] = {
    "done": ("completion_code", "complete"),
    "failed-checks": ("failed_checks_code", "failed_checks"),
    "full": ("full_code", "quota_full"),
    "declined": ("declined_code", "screen_out"),
}
"""The key of an outcome's code, and that of its address at a panel."""


def own_end(recruitment: Recruitment, outcome: Outcome) -> tuple[str, str]:
    """The code and the address at a panel that belong to this outcome, "" if there is none."""
    code, address = ENDS[outcome]
    return getattr(recruitment, code), getattr(recruitment.panel, address, "")


def completion_code(recruitment: Recruitment, outcome: Outcome) -> str:
    """The code of an outcome; the usual code if the outcome has no separate one.

    Participants who declined, and late arrivals from a panel, never get the usual code, since a
    panel may take it as proof of complete answers.
    """
    code, _ = own_end(recruitment, outcome)
    if outcome == "declined" or (outcome == "full" and recruitment.panel):
        return code
    return code or recruitment.completion_code


def completion_url(recruitment: Recruitment, outcome: Outcome, ids: Mapping[str, str]) -> str:
    """The return address of an outcome for a person whom a panel sent with these ids.

    Without a panel, the usual code in the usual address is replaced by the outcome's code; an
    address without the usual code is valid only for the usual outcome.
    """
    if recruitment.panel:
        code, address = own_end(recruitment, outcome)
        if outcome == "failed-checks" and not code:
            address = address or recruitment.panel.complete
        return with_ids(address, ids)
    usual, code = recruitment.completion_code, completion_code(recruitment, outcome)
    if code == usual:
        return recruitment.completion_url
    if not usual or not code or quote(usual, safe="") not in recruitment.completion_url:
        return ""
    return recruitment.completion_url.replace(quote(usual, safe=""), quote(code, safe=""))


def with_ids(address: str, ids: Mapping[str, str]) -> str:
    """The address with the ids in it, percent-encoded; "" if one of them is missing."""
    if not ids.keys() >= set(PLACEHOLDER.findall(address)):
        return ""
    return PLACEHOLDER.sub(lambda found: quote(ids[found[1]], safe=""), address)


def has_failed(recruitment: Recruitment, n_failed: int) -> bool:
    """Whether the number of failed gold and repeated pairs exceeds the study's limit."""
    return 0 <= recruitment.max_failed_checks < n_failed


# A study as an ExternalQuestion of Mechanical Turk: its addresses, and the HITs in its links.

PRODUCTION = "https://www.mturk.com"
SANDBOX = "https://workersandbox.mturk.com"

SITES = (PRODUCTION, SANDBOX, "https://worker.mturk.com")
"""The sites on which workers see a HIT, and to which its form may submit."""

SUBMIT_PATH = "/mturk/externalSubmit"

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""The assignment id while a worker previews a HIT."""

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
