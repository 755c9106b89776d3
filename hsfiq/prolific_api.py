"""The requests of Prolific's API that studies need, with their answers checked.

The names are those of https://docs.prolific.com/api-reference; `docs/guides/recruiting.md` lists
what its pages do not confirm.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import httpx
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from hsfiq.errors import HsfiqError, UnreadableInput

URL = "https://api.prolific.com"
URL_VARIABLE = "HSFIQ_PROLIFIC_URL"
TOKEN_VARIABLE = "HSFIQ_PROLIFIC_TOKEN"  # noqa: S105 (a variable's name)
FILE_VARIABLE = "HSFIQ_PROLIFIC_TOKEN_FILE"

TOKEN = re.compile(r"[!-~]{1,512}")

ATTEMPTS = 6
"""The most attempts of a request that is rate-limited or unanswered."""

SHORTEST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second attempt, and the most before any; each waits twice as long."""

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Access:
    """The address of the API, and the token, which is never printed."""

    url: str
    token: str = field(repr=False)

    @classmethod
    def of_environment(cls) -> Self | None:
        """None without a token; `UnreadableInput` if a setting cannot be used."""
        token, file = os.environ.get(TOKEN_VARIABLE), os.environ.get(FILE_VARIABLE)
        if token and file:
            raise UnreadableInput(FILE_VARIABLE, f"{TOKEN_VARIABLE} is also set", "set one only")
        if not token and not file:
            return None
        if not TOKEN.fullmatch(token := token or token_in(Path(file or ""))):
            what = "holds no token: one line of visible ASCII characters"
            raise UnreadableInput(file or TOKEN_VARIABLE, what, "create one in Prolific's settings")
        return cls(checked_url(os.environ.get(URL_VARIABLE) or URL), token)

    @classmethod
    def required(cls) -> Self:
        if (access := cls.of_environment()) is None:
            remedy = f"set it, or {FILE_VARIABLE} to a file that only you can read"
            raise UnreadableInput(TOKEN_VARIABLE, "is not set, but Prolific requires it", remedy)
        return access


def token_in(file: Path) -> str:
    """The first line of a file that only its owner can read."""
    try:
        mode, text = file.stat().st_mode, file.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise UnreadableInput(str(file), f"cannot be read ({error.strerror})") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnreadableInput(str(file), "other users can read it", f"chmod 600 {file}")
    return text.partition("\n")[0].strip()


def checked_url(text: str) -> str:
    """The address without a final slash; without TLS, the token would be readable on its way."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    is_local = url.scheme == "http" and url.host in ("localhost", "127.0.0.1", "::1")
    if url.scheme != "https" and not is_local:
        raise UnreadableInput(
            URL_VARIABLE, "is not an https address", f"unset it, or set it to {URL}"
        )
    return text.rstrip("/")


class ProlificError(HsfiqError):
    """A request that was not carried out: Prolific refused it, or cannot be reached."""

    def __init__(self, what: str, remedy: str = "", status: int | None = None) -> None:
        super().__init__(what, where="Prolific", remedy=remedy)
        self.status = status


class Unanswered(ProlificError):
    """A request without a usable answer: its outcome is unknown."""


# What is answered. Fields that nothing here needs are not read; money is in hundredths.

PlatformId = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")]
"""An id, which becomes a part of addresses and of comma-separated lists."""


def spelled_alike(status: object) -> object:
    """`AWAITING REVIEW` and `TIMED OUT`, as some pages spell them with `_` or `-`."""
    return re.sub("[-_]", " ", status).upper() if isinstance(status, str) else status


Status = Annotated[str, BeforeValidator(spelled_alike)]


class StudyReply(BaseModel):
    """A study there; `total_cost` includes fees."""

    id: PlatformId
    status: Status
    internal_name: str | None = None
    external_study_url: str | None = None
    total_available_places: int | None = None
    reward: float = Field(ge=0)
    total_cost: float | None = None
    currency: str = Field(
        "", validation_alias=AliasChoices("presentment_currency_code", "currency_code")
    )


class Submission(BaseModel):
    """`bonus_payments` is None where a list of submissions leaves them out."""

    id: PlatformId
    participant_id: PlatformId = Field(
        validation_alias=AliasChoices("participant_id", "participant")
    )
    status: Status
    study_id: str | None = None
    started_at: datetime | None = None
    bonus_payments: list[float] | None = None


class Page(BaseModel):
    results: list[dict[str, Any]]
    links: dict[str, Any] = Field({}, validation_alias="_links")

    @property
    def is_last(self) -> bool:
        following = self.links.get("next", "")
        return (following.get("href") if isinstance(following, dict) else following) is None


class BulkBonus(BaseModel):
    """Bonuses that were set up and not paid yet."""

    id: PlatformId
    amount: float


R = TypeVar("R", bound=BaseModel)

StudyAction = Literal["PUBLISH", "PAUSE", "START"]


class Prolific:
    """A client of the API; its methods raise `ProlificError`, or `Unanswered`.

    A request that may be sent twice is repeated after a refusal for a while (429), an error of the
    server, or a broken connection. Others are repeated only if they were certainly not carried out.
    """

    def __init__(self, access: Access, *, attempts: int = ATTEMPTS, timeout: float = 30.0) -> None:
        self._url, self._attempts = f"{access.url}/api/v1", attempts
        self._http = httpx.Client(
            headers={"Authorization": f"Token {access.token}"},
            timeout=timeout,
            trust_env=access.url.startswith("https:"),  # else, a proxy would see the token
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create_study(self, draft: Mapping[str, Any]) -> StudyReply:
        return read(StudyReply, self._send("POST", "/studies/", draft, is_repeatable=False))

    def study(self, study: str) -> StudyReply:
        return read(StudyReply, self._send("GET", f"/studies/{study}/"))

    def drafts(self) -> list[StudyReply]:
        """The studies that are not published."""
        return self._list(StudyReply, "/studies/", state="UNPUBLISHED")

    def transition_study(self, study: str, action: StudyAction) -> None:
        path = f"/studies/{study}/transition/"
        self._send("POST", path, {"action": action}, is_repeatable=False)

    def submissions(self, study: str) -> list[Submission]:
        """All submissions to a study."""
        found = self._list(Submission, "/submissions/", study=study)
        if any(each.study_id not in (None, study) for each in found):
            raise ProlificError("answered with submissions to another study than requested")
        return found

    def submission(self, submission: str) -> Submission:
        return read(Submission, self._send("GET", f"/submissions/{submission}/"))

    def review(self, submission: str, body: Mapping[str, str]) -> Submission:
        """Approve or reject; the documentation says that a second request is ignored."""
        return read(Submission, self._send("POST", f"/submissions/{submission}/transition/", body))

    def screen_out(self, study: str, submission: str, amount: str) -> None:
        """End a submission with a payment; its place is recruited for again."""
        body = {"submission_ids": [submission], "bonus_per_submission": float(amount)}
        path = f"/studies/{study}/screen-out-submissions/"
        self._send("POST", path, body | {"increase_places": True}, is_repeatable=False)

    def set_up_bonuses(self, study: str, amounts: Mapping[str, str]) -> BulkBonus:
        """Announce bonuses by submission, such as 4.25; nothing is paid before `pay_bonuses`."""
        lines = "\n".join(f"{submission},{amount}" for submission, amount in amounts.items())
        body = {"study_id": study, "csv_bonuses": lines}
        return read(BulkBonus, self._send("POST", "/submissions/bonus-payments/", body))

    def pay_bonuses(self, bulk: str) -> None:
        """Pay what was set up; a second request would pay again."""
        self._send("POST", f"/bulk-bonus-payments/{bulk}/pay/", {}, is_repeatable=False)

    def _list(self, kind: type[R], path: str, **parameters: str) -> list[R]:
        """All pages of a list. What was added meanwhile can be on two of them."""
        found: dict[str, R] = {}
        for number in count(1):
            before = len(found)
            of_page = parameters | {"page": str(number), "page_size": str(PAGE_SIZE)}
            page = read(Page, response := self._send("GET", path, parameters=of_page))
            found |= {str(row.get("id")): read(kind, response, row) for row in page.results}
            if page.is_last or len(found) == before:
                break
        return list(found.values())

    def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        parameters: Mapping[str, str] | None = None,
        is_repeatable: bool = True,
    ) -> httpx.Response:
        asked = f"{method} {path}"
        for attempt in range(1, self._attempts + 1):
            retry_after, status = "", None
            try:
                response = self._http.request(
                    method, f"{self._url}{path}", json=body, params=parameters
                )
            except httpx.RequestError as error:
                is_unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                what = f"did not answer {asked} ({error or type(error).__name__})"
            else:
                if response.is_success:
                    return response
                status, is_unsent = response.status_code, response.status_code == 429
                if status < 500 and not is_unsent:
                    what = f"refused {asked} with {status}{detail_of(response)}"
                    raise ProlificError(what, REMEDIES.get(status, ""), status)
                retry_after = response.headers.get("Retry-After", "")
                what = f"answered {asked} with {status}"
            if attempt == self._attempts or not (is_repeatable or is_unsent):
                break
            time.sleep(seconds_to_wait(attempt, retry_after))
        raise (ProlificError if is_unsent else Unanswered)(what, "try again later", status)


def read(kind: type[R], response: httpx.Response, part: object = None) -> R:
    """The answer, or a part of it, as documented; `Unanswered` if it is something else."""
    try:
        return kind.model_validate(response.json() if part is None else part)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError:
        reason = "no JSON"
    what = f"its answer to {response.request.url.path} is not as documented: {reason}"
    raise Unanswered(what, f"is {URL_VARIABLE} the address of its API?")


def seconds_to_wait(attempt: int, retry_after: str) -> float:
    """The pause that the server requests, or twice the previous one."""
    doubled = SHORTEST_WAIT * 2.0 ** (attempt - 1)
    return min(float(retry_after) if retry_after.isdecimal() else doubled, LONGEST_WAIT)


REMEDIES = {
    401: f"is the token in {TOKEN_VARIABLE} or {FILE_VARIABLE} still valid?",
    404: "does it exist, and does the token belong to its workspace?",
}


def detail_of(response: httpx.Response) -> str:
    """The reason that an error gives."""
    try:
        error: Any = response.json()
    except ValueError:
        return ""
    error = error.get("error", error) if isinstance(error, dict) else error
    detail = error.get("detail", error) if isinstance(error, dict) else error
    return f": {detail if isinstance(detail, str) else json.dumps(detail)}"[:300]
