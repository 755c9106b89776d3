"""The step "Rehearse and launch": rehearsals, missing items, and the opening of the study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from fastapi import FastAPI, Request, Response

from hsfiq.actors import Action
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.studio.design import leave_out_gold
from hsfiq.annotate.studio.question import preview_address
from hsfiq.annotate.studio.setup import Setup, State, Step, Summary, named, setup_at, step_of
from hsfiq.annotate.studio.shell import Said, Studio, file_response
from hsfiq.audit import last_actor, last_time
from hsfiq.collect.studies import find_study
from hsfiq.db.studio_tables import Job
from hsfiq.drafts import GOLD, PEOPLE, Trial, trial_of
from hsfiq.errors import Refused
from hsfiq.jobs import FOLDER, add_job, ask_to_stop, job_folder, jobs_of, progress_of
from hsfiq.study.config_file import enclosing

TAKE_BACK = timedelta(seconds=10)
"""The time in which the opening of a study can be cancelled."""

REHEARSAL, LAUNCH = "rehearsal", "launch"


class Check(NamedTuple):
    """A line of the list of checks: `bad` blocks the launch, `warn` does not.

    `place` is the step and field in which it can be repaired; `act` repairs it immediately.
    """

    state: State
    text: str
    help: str = ""
    place: str = ""
    act: str = ""


def checks_of(setup: Setup, others: Sequence[Step]) -> list[Check]:
    """Missing items, warnings, and completed items."""
    t, checks = setup.desk.t, []
    for step in others:
        text, state = step.summary(setup)
        if text == t("not yet") and step.name != "design":  # which has figures once there are lists
            state = "bad"
        checks.append(Check(state, f"{t(step.title)}: {text}", "", step.name))
        checks += [
            Check("bad", f"{t(step.title)}: {named(key)}: {what}", "", f"{step.name}#f-{key}")
            for key, what in setup.errors.items()
            if step_of(key) == step.name and what not in text
        ]
    is_incomplete = any(check.state == "bad" for check in checks)
    if not is_incomplete or (setup.draft.content.dataset and not setup.errors):
        checks += trial_checks(setup)
    order = {"bad": 0, "warn": 1}
    return sorted(checks, key=lambda check: order.get(check.state, 2))


def trial_checks(setup: Setup) -> Iterator[Check]:
    """The messages from drawing the study."""
    desk, t = setup.desk, setup.desk.t
    with desk.database.reading() as session:
        namesake = find_study(session, setup.draft.name)
    if namesake is not None and namesake.id != setup.draft.study_id:
        yield Check("bad", t("Another study has this name."), "", "question#f-study.name")
    trial = trial_of(desk.database, setup.draft.content, setup.draft.folder)
    if trial.problem:
        yield problem_check(setup, trial)
    elif trial.budget is not None:
        budget = trial.budget
        text = t(
            "{people} people, {questions} questions and about {minutes} minutes each",
            people=budget.participants,
            questions=budget.questions,
            minutes=budget.duration.minutes,
        )
        yield Check("good", text, "", "design")
        if budget.capacity.warnings():
            uneven = t("Some people get more questions, so equal pay means a lower rate for them.")
            yield Check("warn", uneven, "", "design")


def problem_check(setup: Setup, trial: Trial) -> Check:
    """The reason why the study cannot be drawn, and the place to repair it."""
    t = setup.desk.t
    texts = {
        GOLD: t("There is not enough data for a question with an obvious answer."),
        PEOPLE: t("There are too few questions for so many people."),
        "recruitment.quotas": t("A quota does not fit the questions and people."),
        "queries.sample": t("Fewer queries are left than the study asks about."),
        "queries": t("There are too few queries with a list of each system that is long enough."),
        "queries.categories": t("No query is in the chosen groups."),
        "practice": t("The practice question cannot be made of these queries and lists."),
        "": t("The study cannot be drawn"),
    }
    key = next((part for part in enclosing(trial.where) if part in texts), "")
    place = step_of(trial.where) if "." in trial.where or key else "images"
    return Check("bad", texts[key], trial.problem, place, "leave-out-gold" if key == GOLD else "")


def summary(setup: Setup) -> Summary:
    t = setup.desk.t
    if setup.draft.status in (None, "draft"):
        return Summary(t("not yet"))
    return Summary(t(setup.draft.status or ""), "good")


def view(setup: Setup, others: Sequence[Step]) -> Mapping[str, object]:
    with setup.desk.database.reading() as session:
        jobs = jobs_of(session, draft_id=setup.draft.id)
        walked = last_actor(session, Action.STUDY_PREVIEW, setup.draft.name)
        walked_at = last_time(session, Action.STUDY_PREVIEW, setup.draft.name)
    rehearsal, launch = latest(jobs, REHEARSAL), latest(jobs, LAUNCH)
    checks = [] if setup.is_fixed else checks_of(setup, others)
    folder = None if rehearsal is None else job_folder(setup.desk.database, rehearsal.id)
    return {
        "checks": checks,
        "missing": sum(check.state == "bad" for check in checks),
        "rehearsal": rehearsal,
        "rehearsed": None if folder is None else progress_of(folder),
        "has_report": folder is not None and (folder / REHEARSAL / "report").is_dir(),
        "launch": launch,
        "is_launching": is_active(launch),
        "is_busy": is_active(launch) or is_active(rehearsal),
        "walked": walked,
        "walked_at": walked_at,
        "walk": preview_address(setup, walk=True),
    }


def latest(jobs: Sequence[Job], kind: str) -> Job | None:
    return next((job for job in jobs if job.kind == kind), None)


def is_active(job: Job | None) -> bool:
    return job is not None and job.state in ("waiting", "running")


def rehearse(setup: Setup) -> Said:
    desk, token = setup.desk, setup.draft.token
    command = ["draft", "rehearse", token, "--out", f"{FOLDER}/{REHEARSAL}"]
    about = desk.t("Rehearsal of {title}", title=setup.draft.title)
    with desk.database.writing() as session:
        add_job(session, desk.actor, REHEARSAL, about, [command], draft_id=setup.draft.id)
    return Said(desk.t("Simulated people are answering a copy of the study."))


def open_study(setup: Setup, others: Sequence[Step]) -> Said:
    """Open the study in ten seconds, unless this is cancelled."""
    desk, draft = setup.desk, setup.draft
    if setup.is_fixed:
        raise Refused("the study has already been opened")
    missing = [check for check in checks_of(setup, others) if check.state == "bad"]
    if missing:
        raise Refused(f"something is missing: {missing[0].text}")
    about = desk.t("Opening {title}", title=draft.title)
    command = ["draft", "draw", draft.token, "--open"]
    with desk.database.writing() as session:
        add_job(session, desk.actor, LAUNCH, about, [command], draft_id=draft.id, delay=TAKE_BACK)
    return Said()


def stop(setup: Setup) -> Said:
    desk = setup.desk
    with desk.database.writing() as session:
        job = session.get(Job, desk.number("job"))
        if job is None or job.draft_id != setup.draft.id:
            raise Refused("there is no such job")
        ask_to_stop(session, job.id)
    is_launch = job.kind == LAUNCH
    return Said(desk.t("Cancelled: the study is not opened.") if is_launch else desk.t("Stopped."))


ACTS = {"rehearse": rehearse, "stop": stop, "leave-out-gold": leave_out_gold}


def step_after(others: Sequence[Step]) -> Step:
    """The step; `others` are the earlier steps, whose summaries are in its list."""
    return Step(
        "launch",
        "Rehearse and launch",
        summary,
        lambda setup: view(setup, others),
        ACTS | {"open": lambda setup: open_study(setup, others)},
    )


def add_rehearsal(app: FastAPI, studio: Studio) -> None:
    """The report on the answers of simulated people."""

    @app.get(f"{OWNER}/draft/{{token}}/rehearsal/{{path:path}}")
    def file(request: Request, path: str) -> Response:
        setup = setup_at(studio, request)
        with studio.database.reading() as session:
            job = latest(jobs_of(session, draft_id=setup.draft.id), REHEARSAL)
        if job is None:
            return Response(status_code=404)
        folder = job_folder(studio.database, job.id) / REHEARSAL / "report"
        return file_response(folder, path or "report.html")
