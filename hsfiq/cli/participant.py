"""`hsfiq participant`: list, pause, exclude, pay and forget participants, notes, platform ids."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.actors import Action, command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.collect.progress import ParticipantProgress

app = common.Commands(
    help="List, pause, exclude, pay and forget participants.", no_args_is_help=True
)


# `hsfiq participant allow` and `links`: which people of a platform may enrol.

IDS_HELP = "The platform ids of people, one on each line."


@app.command(epilog="Example: hsfiq participant allow ids.txt --study autumn")
def allow(
    call: common.StudyCall,
    ids: Annotated[Path | None, typer.Argument(metavar="[IDS.txt]", help=IDS_HELP)] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Delete the list, so that all ids may enrol.")
    ] = False,
) -> None:
    """Restrict enrolment to these platform ids.

    Repeat the command to add ids. Enrolled participants are unaffected.
    """
    from hsfiq.collect.places import allow_everybody, allow_people, count_allowed, read_people

    if (ids is None) != everybody:
        raise UnreadableInput("participant allow", "needs a file of ids or --everybody", "name one")
    people = read_people(ids) if ids else []
    with call.writing() as session:
        row = call.chosen(session)
        added = 0
        if everybody:
            allow_everybody(session, row)
        else:
            added = allow_people(session, row, people)
        about = "everybody" if everybody else count_text(added, "id")
        common.record_command(session, Action.PARTICIPANT_ALLOW, study=row.name, about=about)
        name, allowed = row.name, count_allowed(session, row)
    line = f"{count_text(added, 'id')} added; {count_text(allowed, 'id')} may enrol"
    if everybody:
        line = "everybody may enrol"
    result = {"study": name, "added": added, "allowed": allowed}
    call.print(result, f"study {name}: {line}")


@app.command(epilog="Example: hsfiq participant links ids.txt --url https://study.example.org")
def links(
    call: common.StudyCall,
    ids: Annotated[Path, typer.Argument(metavar="IDS.txt", help=IDS_HELP)],
    url: common.UrlOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV of ids and their links.")
    ] = Path("links.csv"),
) -> None:
    """Write a signed link for each id; see `signed_links`.

    Studies with `signed_links` accept no other links.
    """
    with common.requires("annotate"):
        from hsfiq.annotate.cookies import signer_of
        from hsfiq.annotate.entry import write_links
    from hsfiq.collect.places import read_people, require_signable

    root, people = common.root_of_links(url), read_people(ids)
    if out.exists():
        raise UnreadableInput(str(out), "already exists", "name another file with --out")
    opened = call.open()
    signer = signer_of(opened)
    with opened.writing() as session:
        row = call.chosen(session)
        require_signable(row)
        name = row.name
        about = count_text(len(people), "link")
        common.record_command(session, Action.PARTICIPANT_LINKS, study=name, about=about)
        write_links(signer, row, people, root, out)
    result = {"study": name, "links": len(people), "file": str(out)}
    call.print(result, f"study {name}: {count_text(len(people), 'link')} in {out}")


@app.command("list", epilog="Example: hsfiq participant list")
def list_(call: common.StudyCall) -> None:
    """List a study's participants and their progress."""
    from hsfiq.collect.progress import participants_of

    with call.reading() as session:
        rows = participants_of(session, call.chosen(session))
    text = common.table_text(
        ("participant", "platform id", "status", "answered", "questions", "failed", "checks"),
        [
            (
                *(row.participant, row.platform_id or "", status_of(row)),
                *(row.answered, row.questions, row.failed_checks, row.checks),
            )
            for row in rows
        ],
    )
    result = {"participants": [row.facts() for row in rows]}
    empty = "no participant yet: hsfiq serve prints the links to send"
    call.print(result, text or empty)


def status_of(row: ParticipantProgress) -> str:
    """`paused`, or `paused (failed checks: 2, limit 1)` with the recorded cause."""
    return f"{row.standing} ({row.status_cause})" if row.status_cause else row.standing


def add_command(command: str, action: str, help_text: str) -> None:
    """Add a command that performs an action on a participant and prints the change of status."""

    @app.command(command, help=help_text, epilog=f"Example: hsfiq participant {command} p7")
    def change_status(
        call: common.StudyCall,
        participant: Annotated[str, typer.Argument(help=common.PARTICIPANT_HELP)],
        reason: Annotated[
            str, typer.Option(metavar="TEXT", help="The reason, stored with the change.")
        ] = "",
    ) -> None:
        done, person = common.perform_participant_action(
            call.open(), call.study, action, participant, reason
        )
        label = common.participant_label(person.name, person.external_id)
        named = {"study": done.study, "participant": person.name, "platform_id": person.external_id}
        result = named | {"before": done.status_seen, "status": done.status_after}
        line = f"participant {label}: {done.status_seen} -> {done.status_after}"
        call.print(result, line)


for _command, _action, _help in (
    (
        "exclude",
        "exclude",
        "Exclude a participant's answers from releases.\n\nTheir questions are reassigned.",
    ),
    ("pause", "pause", "Pause a participant: no answers are accepted."),
    ("resume", "resume", "Let a paused participant continue."),
    (
        "returned",
        "return",
        "Record that a participant gave up; answers are kept.\n\nOpen questions are reassigned.",
    ),
    (
        "screened-out",
        "screen-out",
        "Record that the platform rejected a participant.\n\nUnanswered questions are reassigned.",
    ),
):
    add_command(_command, _action, _help)


@app.command(epilog='Example: hsfiq participant note p7.form_1.3 "the query makes no sense"')
def note(
    call: common.StudyCall,
    about: Annotated[str, typer.Argument(help="A participant, or an answer: p7 or p7.form_1.3.")],
    text: Annotated[str, typer.Argument(help="The note; without it, the notes are listed.")] = "",
    delete: Annotated[
        int | None, typer.Option(metavar="N", help="Delete the note with this number.")
    ] = None,
) -> None:
    """Write, list or delete notes about people and answers."""
    from hsfiq.collect.review import add_note, delete_note, notes_about

    actor = command_line()
    with call.writing() as session:
        row = call.chosen(session)
        if delete is not None:
            delete_note(session, row, actor, delete, may_delete_all=True)
        if text:
            add_note(session, row, actor, about, text, datetime.now(UTC))
        notes = [(each.id, each.written_by, each.text) for each in notes_about(session, row, about)]
    names = ("number", "by", "note")
    lines = common.table_text(names, notes)
    result = {"about": about, "notes": [dict(zip(names, each, strict=True)) for each in notes]}
    call.print(result, lines or "no note")


@app.command(epilog="Example: hsfiq participant review p7.form_1.3")
def review(
    call: common.StudyCall,
    answer: Annotated[str, typer.Argument(help="The answer, such as p7.form_1.3.")],
    again: Annotated[
        bool, typer.Option("--again", help="Mark the answer as not reviewed.")
    ] = False,
) -> None:
    """Mark a flagged or commented answer as reviewed."""
    from hsfiq.collect.review import mark_reviewed

    with call.writing() as session:
        row, now = call.chosen(session), datetime.now(UTC)
        mark_reviewed(session, row, command_line(), answer, now, done=not again)
    result = {"answer": answer, "done": not again}
    call.print(result, f"{answer}: {'to do' if again else 'done'}")


@app.command(epilog="Example: hsfiq participant release --minutes 5")
def release(
    call: common.StudyCall,
    minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=525_600,
            help="Only places taken at least this long ago [unbegun_minutes in study.toml].",
        ),
    ] = None,
) -> None:
    """Give back the places of people who have not consented.

    They can still take part while places are free.
    """
    from hsfiq.collect.owner import release_places

    with call.writing() as session:
        row = call.chosen(session)
        name, released = row.name, release_places(session, row, datetime.now(UTC), minutes)
        if released:
            people = ", ".join(released)
            common.record_command(session, Action.PARTICIPANT_RELEASE, study=name, about=people)
    places = count_text(len(released), "place")
    line = f"study {name}: {places} given back{': ' if released else ''}{', '.join(released)}"
    call.print({"study": name, "released": released}, line)


@app.command(epilog="Example: hsfiq participant decide p7 approve --bonus 0.50")
def decide(
    call: common.StudyCall,
    participant: Annotated[str, typer.Argument(help=common.PARTICIPANT_HELP)],
    pay: Annotated[
        Literal["approve", "reject", "ask", "undo"],
        typer.Argument(help="`ask` sends a message and leaves the decision open."),
    ],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The text that the participant reads.")
    ] = "",
    bonus: Annotated[
        str, typer.Option(metavar="AMOUNT", help="A bonus in addition to the pay.")
    ] = "",
) -> None:
    """Decide on the pay of a participant who has finished.

    `payout` and `hsfiq prolific approve` follow the decision; `undo` is possible until it is sent
    to Prolific.
    """
    from hsfiq.collect.participants import by_name_or_platform_id
    from hsfiq.payout import cents_of, undo_decision
    from hsfiq.payout import decide as decide_on

    with call.writing() as session:
        person = by_name_or_platform_id(session, call.chosen(session), participant)
        if pay == "undo":
            undo_decision(session, command_line(), person)
        else:
            who = (session, command_line(), person, datetime.now(UTC))
            cents = cents_of(bonus) if bonus else 0
            decide_on(*who, pay=pay, bonus=cents, reason=reason)
        result = {"study": person.study.name, "participant": person.name, "decided": pay}
    call.print(result, f"participant {result['participant']}: {pay}")


@app.command(epilog="Example: hsfiq participant exclude-by-rule --checks 1 --seconds 6 --dry-run")
def exclude_by_rule(
    call: common.StudyCall,
    checks: Annotated[
        str | None, typer.Option(metavar="N", help="Exclude people who failed more checks.")
    ] = None,
    seconds: Annotated[
        str | None,
        typer.Option(metavar="S", help="Exclude people with a lower median time for a question."),
    ] = None,
    side: Annotated[
        str | None, typer.Option(metavar="%", help="Exclude people who prefer one side more often.")
    ] = None,
    doubtful: Annotated[
        str | None,
        typer.Option(metavar="%", help="Exclude people with more flags or contradictions."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Include the people again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the people.")] = False,
) -> None:
    """Exclude the participants beyond a limit.

    Releases report the rule, and whether it was fixed before the launch.
    """
    from hsfiq.collect.owner import apply_rule, left_out_by, undo_rule
    from hsfiq.study.filters import described, read_limits

    given = {"checks": checks, "seconds": seconds, "side": side, "doubtful": doubtful}
    limits = read_limits({name: text for name, text in given.items() if text is not None})
    opened = call.open()
    with opened.reading() as session:
        people = left_out_by(session, call.chosen(session), limits)
    names = [each.person.name for each in people]
    with opened.writing() as session:
        row = call.chosen(session)
        if undo:
            names = undo_rule(session, row, described(limits), command_line())
        elif not dry_run:
            names = apply_rule(session, row, limits, people, command_line())
        result = {"study": row.name, "rule": described(limits), "participants": names}
    line = f"{count_text(len(names), 'participant')}: {', '.join(names)}".rstrip(": ")
    call.print(result, line)


@app.command(
    epilog="Example: hsfiq participant payout --out payout --max-failed-checks 2 "
    "--bonus-per-question 0.05"
)
def payout(
    call: common.StudyCall,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the lists.")],
    platform: Annotated[
        Literal["prolific", "mturk", "panel"], typer.Option(help="The platform of the lists.")
    ] = "prolific",
    max_failed_checks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Reject people who failed more gold and repeated pairs [the limit in study.toml].",
        ),
    ] = None,
    bonus_per_question: Annotated[
        str, typer.Option(metavar="AMOUNT", help="The bonus for each answered question.")
    ] = "0",
    force: Annotated[bool, typer.Option("--force", help="Replace the lists in DIR.")] = False,
) -> None:
    """Write the lists of approvals, rejections and bonuses.

    The lists are for Prolific, MTurk or a panel, and give the reasons for rejections.
    """
    from hsfiq.payout import LEFT_OUT, payout_of, require_free_payout, rule_of, write_payout

    bonus = common.amount("--bonus-per-question", bonus_per_question)
    require_free_payout(out, force=force)
    opened = call.open()
    with opened.reading() as session:
        row = call.chosen(session)
        rule = rule_of(row, max_failed_checks, bonus)
        lists = payout_of(session, row, platform, rule)
    write_payout(lists, out, force=force)
    common.record_afterwards(opened, Action.PARTICIPANT_PAYOUT, study=lists.study, about=platform)
    facts = lists.facts()
    bonuses = count_text(len(lists.bonuses), "bonus", "bonuses")
    summary = (
        f"study {lists.study}, {platform}: {len(lists.approved):,} to approve, "
        f"{len(lists.rejected):,} to reject, {bonuses} of "
        f"{facts['bonus_total']} in total, in {out}"
    )
    left_out = [
        f"{count:,} in no list: they {LEFT_OUT[reason]}"
        for reason, count in lists.left_out.items()
        if count
    ]
    call.print(facts | {"folder": str(out)}, "\n".join([summary, *left_out]))


@app.command(epilog="Example: hsfiq participant forget p7")
def forget(
    call: common.StudyCall,
    participant: Annotated[
        str, typer.Argument(help="The pseudonym, such as p7, the platform id or the link's token.")
    ],
    releases: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of releases to search [releases].",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete all data of a person.

    Their answers and checks are deleted. Existing releases are not changed; the recorded releases
    and the release folders with the person's answers are listed.

    The exit code is 1 if the database's files can still contain the deleted answers.
    """
    from hsfiq.collect.owner import PERSONAL_TABLES, perform, prepare
    from hsfiq.collect.participants import by_name_or_platform_id, by_token
    from hsfiq.releases.export import releases_holding

    opened = call.open()
    with opened.reading() as session:
        person = by_token(session, participant) or by_name_or_platform_id(
            session, call.chosen(session), participant
        )
        action = prepare(person.study, "forget", person)
    label = common.participant_label(person.name, person.external_id)
    if not yes and not typer.confirm(f"Delete all answers of {label}?"):
        raise UnreadableInput("participant forget", "not confirmed; nothing was deleted")
    with opened.writing() as session:
        deleted = perform(session, action, command_line())
    is_erased = opened.erase_deleted_rows(PERSONAL_TABLES)
    name = action.participant or ""
    holding = releases_holding(releases or common.releases_folder(), action.study, name)
    lines = [f"participant {label} of study {action.study}: {deleted.n_answers} answers deleted"]
    lines += [
        f"release {release.name} {release.version} of {release.last_exported_at:%Y-%m-%d} has "
        f"answers of {name}, as have all its published copies"
        for release in deleted.releases
    ]
    lines += [f"{folder} still holds answers of {name}; it was not altered" for folder in holding]
    if not is_erased:
        lines.append(
            f"the database's files can still contain the deleted answers, because the database is "
            f"in use or belongs to another user; repeat `hsfiq participant forget {name}` when "
            f"the database is not in use"
        )
    result = {
        "participant": name,
        "study": action.study,
        "deleted": deleted.n_answers,
        "erased": is_erased,
        "recorded_releases": [
            {
                "name": release.name,
                "version": release.version,
                "content_sha256": release.content_sha256,
                "last_exported_at": release.last_exported_at.isoformat(),
            }
            for release in deleted.releases
        ],
        "releases": [str(folder) for folder in holding],
    }
    call.print(result, "\n".join(lines))
    if not is_erased:
        raise typer.Exit(1)
