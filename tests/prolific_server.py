"""A server that stands for Prolific: the documented requests, with a ledger of what is paid.

It refuses requests for a while (429), fails (503), or does what is asked and then ends the
connection without an answer, as often as it is told. Bonuses are paid by the first request that
comes some time after they are accepted, and twice if that is asked for twice.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "secret-token-of-the-tests"
STUDY = "64ab0c1d2e3f405162738495"
LATER_SECONDS = 0.3


@dataclass
class FakeProlific:
    """`faults` is the share of requests that fail, `forced` has the next ones, such as `lost`.

    While `holds` is set, accepted bonuses wait in `held`; `lists_bonuses` shows them in lists, too.
    """

    url: str = ""
    faults: float = 0.0
    seconds: float = 0.0
    largest_page: int = 100
    lists_bonuses: bool = False
    holds: bool = False
    held: list[str] = field(default_factory=list)
    accepted: list[tuple[float, str]] = field(default_factory=list)
    rng: Random = field(default_factory=lambda: Random(1))
    forced: list[tuple[str, str]] = field(default_factory=list)
    studies: dict[str, dict[str, Any]] = field(default_factory=dict)
    submissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    bulks: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    ledger: list[tuple[str, str, int]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_study(self, study: str = STUDY, status: str = "ACTIVE", reward: int = 450) -> None:
        self.studies[study] = {
            "id": study, "status": status, "reward": reward, "total_available_places": 10,
            "presentment_currency_code": "GBP",
        }  # fmt: skip

    def add(self, person: str, status: str, study: str = STUDY, submission: str = "") -> str:
        submission = submission or f"s-{person}"
        self.submissions[submission] = {
            "id": submission, "participant_id": person, "study_id": study, "status": status,
            "started_at": f"2026-03-01T12:00:{len(self.submissions) % 60:02d}Z",
            "bonus_payments": [],
        }  # fmt: skip
        return submission

    def sent(self) -> list[tuple[str, str]]:
        """The requests that ask for something to be done."""
        return [request for request in self.requests if request[0] != "GET"]

    def paid(self, kind: str) -> Counter[str]:
        """How often each submission was paid, including the bonuses that were accepted."""
        with self.lock:
            self.pay_accepted(before=math.inf)
            return Counter(submission for paid, submission, _ in self.ledger if paid == kind)

    def fault(self, method: str, path: str) -> str:
        for number, (words, fault) in enumerate(self.forced):
            if words in f"{method} {path}":
                del self.forced[number]
                return fault
        kinds = ("429", "503", "lost")
        return self.rng.choice(kinds) if self.rng.random() < self.faults else ""

    # What the requests do; each returns a status and the answer.

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        for pattern, action in ROUTES.items():
            if match := re.fullmatch(pattern, f"{method} /api/v1{path}"):
                if (wrong := self.answers.get(action)) is not None:
                    return 200, wrong
                result: tuple[int, Any] = getattr(self, action)(*match.groups(), query, body)
                return result
        return 404, {"error": {"title": "Not found", "detail": "no such request"}}

    def list_studies(self, query: dict[str, str], _body: Any) -> tuple[int, Any]:
        rows = [each for each in self.studies.values() if each["status"] == query["state"]]
        return 200, self.page(rows, query)

    def create_study(self, _query: Any, body: Any) -> tuple[int, Any]:
        study = f"{len(self.studies):024x}"
        self.studies[study] = {"id": study, "status": "UNPUBLISHED", "currency_code": "GBP"} | body
        return 201, self.studies[study]

    def show_study(self, study: str, _query: Any, _body: Any) -> tuple[int, Any]:
        if study not in self.studies:
            return 404, {"error": {"title": "Study not found", "detail": f"no study {study}"}}
        return 200, self.studies[study]

    def change_study(self, study: str, _query: Any, body: Any) -> tuple[int, Any]:
        self.studies[study]["status"] = {"PAUSE": "PAUSED"}.get(body["action"], "ACTIVE")
        return 200, self.studies[study]

    def list_submissions(self, query: dict[str, str], _body: Any) -> tuple[int, Any]:
        rows = [
            {k: v for k, v in each.items() if self.lists_bonuses or k != "bonus_payments"}
            for each in self.submissions.values()
            if each["study_id"] == query["study"]
        ]
        return 200, self.page(rows, query)

    def page(self, rows: list[Any], query: dict[str, str]) -> dict[str, Any]:
        size, number = min(int(query["page_size"]), self.largest_page), int(query["page"])
        following = f"{self.url}/next" if number * size < len(rows) else None
        results = rows[(number - 1) * size : number * size]
        return {"results": results, "_links": {"next": {"href": following}}}

    def show_submission(self, submission: str, _query: Any, _body: Any) -> tuple[int, Any]:
        shown = dict(self.submissions[submission])
        return 200, shown | {"participant": shown.pop("participant_id")}

    def review(self, submission: str, _query: Any, body: Any) -> tuple[int, Any]:
        row = self.submissions[submission]
        wanted = {"APPROVE": "APPROVED", "REJECT": "REJECTED"}[body["action"]]
        if wanted == "REJECTED" and (len(body["message"]) < 100 or not body["rejection_category"]):
            return 400, {"error": {"detail": {"message": ["is too short"]}}}
        if row["status"] not in (wanted, "AWAITING REVIEW"):
            return 400, {"error": {"detail": f"a submission that is {row['status']}"}}
        if row["status"] != wanted:
            row["status"] = wanted
            cents = self.studies[row["study_id"]]["reward"] if wanted == "APPROVED" else 0
            self.ledger.append((body["action"].lower(), submission, cents))
        return self.show_submission(submission, None, None)

    def screen_out(self, _study: str, _query: Any, body: Any) -> tuple[int, Any]:
        for submission in body["submission_ids"]:
            self.submissions[submission]["status"] = "SCREENED OUT"
            cents = round(100 * body["bonus_per_submission"])
            self.ledger.append(("screen-out", submission, cents))
        return 200, {"message": "Screening out"}

    def set_up(self, _query: Any, body: Any) -> tuple[int, Any]:
        rows = [line.split(",") for line in body["csv_bonuses"].split("\n")]
        amounts = [(submission, round(100 * float(amount))) for submission, amount in rows]
        if not all(submission in self.submissions for submission, _ in amounts):
            return 400, {"error": {"detail": "unknown ids"}}
        bulk = f"{len(self.bulks):024x}"
        self.bulks[bulk] = amounts
        total = sum(cents for _, cents in amounts)
        return 201, {"id": bulk, "study": body["study_id"], "amount": total, "fees": 0}

    def pay(self, bulk: str, _query: Any, _body: Any) -> tuple[int, Any]:
        if self.holds:
            self.held.append(bulk)
        else:
            self.accepted.append((time.monotonic(), bulk))
        return 202, f"Bulk bonus payment with ID {bulk} is being processed asynchronously."

    def pay_accepted(self, before: float) -> None:
        for bulk in [bulk for accepted, bulk in self.accepted if accepted < before]:
            self.pay_later(bulk)
        self.accepted = [each for each in self.accepted if each[0] >= before]

    def pay_later(self, bulk: str) -> None:
        for submission, cents in self.bulks[bulk]:
            self.submissions[submission]["bonus_payments"].append(cents)
            self.ledger.append(("bonus", submission, cents))


ROUTES = {
    "GET /api/v1/studies/": "list_studies",
    "POST /api/v1/studies/": "create_study",
    "GET /api/v1/studies/([^/]+)/": "show_study",
    "POST /api/v1/studies/([^/]+)/transition/": "change_study",
    "POST /api/v1/studies/([^/]+)/screen-out-submissions/": "screen_out",
    "GET /api/v1/submissions/": "list_submissions",
    "POST /api/v1/submissions/bonus-payments/": "set_up",
    "GET /api/v1/submissions/([^/]+)/": "show_submission",
    "POST /api/v1/submissions/([^/]+)/transition/": "review",
    "POST /api/v1/bulk-bonus-payments/([^/]+)/pay/": "pay",
}


@contextmanager
def prolific_server(**settings: Any) -> Iterator[FakeProlific]:
    """The server, in threads of this process."""
    fake = FakeProlific(**settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/api/v1")
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            time.sleep(fake.seconds)
            with fake.lock:
                fake.pay_accepted(before=time.monotonic() - LATER_SECONDS)
                fake.requests.append((self.command, path))
                fault = fake.fault(self.command, path)
                if self.headers.get("Authorization") != f"Token {TOKEN}":
                    status, reply = 401, {"error": {"detail": "Invalid token."}}
                elif fault in ("429", "503"):
                    status, reply = int(fault), {"error": {"detail": "later"}}
                else:
                    body = json.loads(content) if content else None
                    status, reply = fake.handle(self.command, path, query, body)
            if fault == "lost":
                self.close_connection = True
                return
            text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer  # noqa: N815 (the names of the base class)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client was killed."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
