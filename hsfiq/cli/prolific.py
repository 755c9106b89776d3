"""`hsfiq prolific`: a study's draft on Prolific, its publication, its submissions and payments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.actors import command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.public_url import is_local
from hsfiq.text import first_few

if TYPE_CHECKING:
    from hsfiq.prolific import Counterpart
    from hsfiq.prolific_api import StudyReply
    from hsfiq.prolific_payments import Plan

app = common.Commands(
    help="Draft, publish, compare and pay a study on Prolific.", no_args_is_help=True
)

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the requests; send nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Only this participant, if decided on; repeat the option for several."
    ),
]


@contextmanager
def opened_for(
    call: common.Call, name: str | None, only: list[str] | None = None
) -> Iterator[Counterpart]:
    """The study, and a client with the token from the environment."""
    from hsfiq.prolific import Counterpart
    from hsfiq.prolific_api import Access, Prolific

    access = Access.required()
    opened = call.open()
    with opened.reading() as session:
        chosen = common.chosen_study(session, name).name
    with Prolific(access) as client:
        yield Counterpart(opened, client, chosen, command_line(), only or None)


@app.command(epilog="Example: hsfiq prolific draft autumn --pay-per-hour 12 --dry-run")
def draft(
    call: common.JsonCall,
    pay_per_hour: Annotated[
        str,
        typer.Option(
            metavar="AMOUNT", help="The hourly reward; the study's duration gives the amount."
        ),
    ],
    name: common.StudyArgument = None,
    description: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The description on Prolific; else title and duration."),
    ] = None,
    url: common.UrlOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create a draft on Prolific, and bind the study to the draft.

    The draft costs nothing until it is published, and can be edited on Prolific before publication.
    """
    from hsfiq.prolific import draft_of, drafted, make_draft, money
    from hsfiq.readers.files import read_text

    pay, root = common.amount("--pay-per-hour", pay_per_hour), common.root_of_links(url)
    if is_local(root):
        what = f"{root} is reachable only from this machine, not by participants from Prolific"
        raise UnreadableInput("--url", what, "name the server's public address")
    text = read_text(description).strip() if description else ""
    with opened_for(call, name) as at:
        if (known := drafted(at)) is not None:
            line = f"study {at.name}: {known.id} already exists on Prolific as {known.status}"
            result = {"study": at.name, "platform_study_id": known.id, "created": False}
            call.print(result, line)
            return
        with at.database.reading() as session:
            wanted = draft_of(session, common.chosen_study(session, at.name), root, pay, text)
        places, reward = wanted["total_available_places"], wanted["reward"]
        cost, minutes = money(reward * places, ""), wanted["estimated_completion_time"]
        parts = f"{places:,} places of {money(reward, '')} for {minutes} minutes"
        lines = [f"study {at.name}: {parts}: {cost} in total, without Prolific's fees"]
        lines += [
            f"code {each['code']}: {each['code_type']}" for each in wanted["completion_codes"]
        ]
        lines.append(f"address: {wanted['external_study_url']}")
        made = None if dry_run else make_draft(at, wanted)
    made_id = made.id if made else None
    lines += (
        [
            f"drafted as {made_id}; choose the audience on Prolific",
            f"next: hsfiq study open {at.name}, then hsfiq prolific publish {at.name}",
        ]
        if made_id
        else ["nothing was sent (--dry-run)"]
    )
    result = {"study": at.name, "platform_study_id": made_id, "created": not dry_run}
    call.print(result | {"total": cost, "draft": wanted}, "\n".join(lines))


@app.command(epilog="Example: hsfiq prolific publish autumn --dry-run")
def publish(
    call: common.JsonCall,
    name: common.StudyArgument = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Publish the draft, or resume the paused study.

    Prolific reserves the cost of all places at publication.
    """
    from hsfiq.prolific import cost_of
    from hsfiq.prolific import publish as publish_study

    totals: list[str] = []

    def agreed(reply: StudyReply) -> bool:
        total, parts = cost_of(reply)
        totals.append(total)
        common.print_text(f"{parts}: {total}", to_stderr=True)
        return not dry_run and confirmed(total, yes=yes)

    with opened_for(call, name) as at:
        done = publish_study(at, agreed)
    end = "would be published (--dry-run)" if totals and not done else "takes people on Prolific"
    result = {"study": at.name, "published": done, "total": totals[0] if totals else None}
    call.print(result, f"study {at.name}: {end}")


@app.command(epilog="Example: hsfiq prolific pause autumn")
def pause(call: common.JsonCall, name: common.StudyArgument = None) -> None:
    """Stop recruitment; current participants can finish."""
    from hsfiq.prolific import pause as pause_study

    with opened_for(call, name) as at:
        done = pause_study(at)
    line = f"study {at.name}: {'paused' if done else 'was paused already'} on Prolific"
    call.print({"study": at.name, "paused": done}, line)


@app.command(epilog="Example: hsfiq prolific sync autumn")
def sync(call: common.JsonCall, name: common.StudyArgument = None) -> None:
    """Compare submissions with participants.

    Places of returned and timed-out submissions are freed. A running `hsfiq serve` with a token
    does this every 30 seconds.
    """
    from hsfiq.prolific import sync as compare

    with opened_for(call, name) as at:
        synced = compare(at)
    counts = ", ".join(f"{n:,} {status}" for status, n in synced.by_status.items())
    lines = [f"study {at.name}: {counts or 'no submission'}"]
    for people, what in (
        (synced.given_back, "left on Prolific; their places are free"),
        (synced.unknown_here, "on Prolific are not among the participants"),
        (synced.unknown_there, "came from Prolific and have no submission there"),
    ):
        if people:
            lines.append(f"{len(people):,} {what}: {first_few(people, 10)}")
    call.print(asdict(synced), "\n".join(lines))


@app.command(epilog="Example: hsfiq prolific approve autumn --reject --dry-run")
def approve(
    call: common.JsonCall,
    name: common.StudyArgument = None,
    reject: Annotated[
        bool,
        typer.Option(
            "--reject", help="Also reject people who failed more checks than are allowed."
        ),
    ] = False,
    screen_out: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="Screen out, with this payment, people who declined or were screened out here.",
        ),
    ] = None,
    only: OnlyOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Approve the submissions of participants who have finished.

    `hsfiq participant payout` uses the same rules. The exit code is 1 if a request failed.
    """
    from hsfiq.prolific_payments import review

    cents = None if screen_out is None else int(100 * common.amount("--screen-out", screen_out))
    ask = asking(dry_run=dry_run, yes=yes)
    with opened_for(call, name, only) as at:
        plan = review(at, ask, rejects=reject, screen_out_cents=cents)
    finish(plan, dry_run=dry_run, as_json=call.as_json)


@app.command(epilog="Example: hsfiq prolific bonus autumn --bonus-per-question 0.05 --dry-run")
def bonus(
    call: common.JsonCall,
    name: common.StudyArgument = None,
    bonus_per_question: Annotated[
        str, typer.Option(metavar="AMOUNT", help="The bonus for each question, unless decided on.")
    ] = "0",
    wait: Annotated[
        float,
        typer.Option(
            metavar="MINUTES",
            min=0.01,
            help="Resend a bonus that got no reply and that Prolific does not list.",
        ),
    ] = 30,
    only: OnlyOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Pay bonuses to approved participants who have none yet.

    The exit code is 1 if a request failed.
    """
    from hsfiq.prolific_payments import pay_bonuses

    pay = common.amount("--bonus-per-question", bonus_per_question)
    ask, patience = asking(dry_run=dry_run, yes=yes), timedelta(minutes=wait)
    with opened_for(call, name, only) as at:
        plan = pay_bonuses(at, ask, pay, patience)
    finish(plan, dry_run=dry_run, as_json=call.as_json)


def asking(*, dry_run: bool, yes: bool) -> Callable[[Plan], bool]:
    """Show a plan, and ask for confirmation."""

    def ask(plan: Plan) -> bool:
        for line in plan.lines():
            common.print_text(line, to_stderr=True)
        return not dry_run and (not plan.due or confirmed(plan.total, yes=yes))

    return ask


def confirmed(total: str, *, yes: bool) -> bool:
    """Whether the owner has typed the total; `UnreadableInput` if it is another one."""
    if not yes and typer.prompt(f"type {total} to confirm", err=True).strip() != total:
        raise UnreadableInput("hsfiq prolific", "not confirmed; nothing was sent")
    return True


def finish(plan: Plan, *, dry_run: bool, as_json: bool) -> None:
    """Print the sent requests; exit code 1 if a request failed or its result is unknown."""
    done = ", ".join(f"{n:,} {kind}" for kind, n in plan.done.items()) or "nothing"
    end = "nothing was sent (--dry-run)" if dry_run else f"done: {done}"
    common.print_result(plan.facts(), f"study {plan.study}: {end}", as_json=as_json)
    for problem in plan.problems:
        common.print_text(f"hsfiq: {problem}", to_stderr=True)
    if plan.problems or (plan.waiting and not dry_run):
        raise typer.Exit(1)
