"""The step "People and consent": recruitment, consent, and the texts at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil
from typing import Annotated, Any, get_args

from fastapi import FastAPI, Form, Request, Response
from markupsafe import Markup

from hsfiq.actors import Permission
from hsfiq.annotate.owner.downloads import csv_file
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.study_pages import MOST_AT_ONCE, new_links, number_in
from hsfiq.annotate.studio.design import budget_in, currency_of, paid
from hsfiq.annotate.studio.question import change as change_text
from hsfiq.annotate.studio.question import form_of, with_text
from hsfiq.annotate.studio.setup import Setup, Step, Summary, setup_of
from hsfiq.annotate.studio.shell import Said, Studio, desk_of
from hsfiq.annotate.texts import consent_with, facts_with, html_of, kept_of_address, texts_in
from hsfiq.collect.owner import extend_while_running
from hsfiq.collect.participants import places_for_invitations
from hsfiq.collect.studies import study_called
from hsfiq.drafts import Content
from hsfiq.errors import HsfiqError, Refused
from hsfiq.project import new_code
from hsfiq.prolific import Counterpart, draft_of, make_draft
from hsfiq.prolific_api import Access, Prolific
from hsfiq.public_url import is_local
from hsfiq.study.capacity import planned_judgements
from hsfiq.study.extension import MoreAnnotators
from hsfiq.study.languages import leaves, worded_texts
from hsfiq.study.recruiting import Mode, panel_link, panel_of

REQUIRED = ("institution", "contact", "ethics")
"""The data that the standard consent names; the launch needs them."""


def missing_in_consent(setup: Setup) -> list[str]:
    """Empty if the owner has written the whole text."""
    study = setup.config.study
    return [] if study.consent else [name for name in REQUIRED if not getattr(study, name)]


def summary(setup: Setup) -> Summary:
    t = setup.desk.t
    if wrong := setup.wrong("people"):
        return Summary(wrong, "bad")
    texts = {"institution": t("institution missing"), "contact": t("contact missing")}
    for name in reversed(missing_in_consent(setup)):
        return Summary(texts.get(name, t("ethics approval missing")), "bad")
    return Summary(
        t("{how}, consent ready", how=names_of_modes(setup)[setup.config.recruitment.mode])
    )


def names_of_modes(setup: Setup) -> Mapping[str, str]:
    t, panel = setup.desk.t, setup.config.recruitment.panel
    return {
        "invitation": t("Personal links"),
        "open": t("Open page"),
        "prolific": "Prolific",
        "mturk": "Mechanical Turk",
        "panel": panel.name if panel and panel.name else t("Another panel"),
    }


# What people read before they agree.

GAP = "GAPINTHECONSENT"
"""A placeholder for missing data in the rendered text."""


def consent_of(setup: Setup, language: str) -> Sequence[Markup]:
    """The consent in its final form; missing data are between its parts."""
    config = setup.config
    gaps: dict[str, Any] = dict.fromkeys(missing_in_consent(setup), GAP)
    config = replace(config, study=replace(config.study, **gaps))
    texts = texts_in(
        config, language, form_of(setup), kind=config.design.kind, title=setup.draft.title
    )
    budget, mode = budget_in(setup), config.recruitment.mode
    facts = facts_with(config, texts, budget.questions, budget.duration)
    kept = [] if mode == "invitation" else kept_of_address(config, "collected", texts)
    shown = html_of(consent_with(texts, config, mode, facts, kept))
    return [Markup(part) for part in shown.split(GAP)]  # noqa: S704 (html_of is safe)


ENDS = {"page.thanks": "page", "entry.places_taken": "entry"}
"""The texts of a language file that people read at the end, and when the study is full."""


def end_texts(setup: Setup, language: str) -> list[tuple[str, str, str]]:
    """The key of each text, the owner's text, and the app's own text."""
    written = dict(leaves(setup.draft.content.texts.get(language, {})))
    texts = worded_texts(language, form_of(setup), setup.config.design.kind)
    return [
        (f"{language} {key}", str(written.get(key, "")), texts[part][key.partition(".")[2]])
        for key, part in ENDS.items()
    ]


# Links and places, once the study is drawn.


def links_of(setup: Setup) -> Mapping[str, object]:
    """The entry address, the unused invitations, and the number of further people."""
    name = setup.draft.study
    if name is None:
        return {"address": "", "places": None, "extensions": [], "drafted": ""}
    root, panel = str(setup.desk.request.base_url), panel_of(setup.config.recruitment)
    with setup.desk.database.reading() as session:
        study = study_called(session, name)
        times = planned_judgements(session, study).values() if setup.is_fixed else []
        return {
            "address": panel_link(panel, root, name) if panel else f"{root}?study={name}",
            "places": places_for_invitations(session, study, datetime.now(UTC)),
            "extensions": extensions_for(setup, list(times)),
            "drafted": study.platform_study_id or "",
        }


def extensions_for(setup: Setup, times: Sequence[int]) -> list[tuple[int, int, float]]:
    """The possible numbers of people per query, with the required places and their cost."""
    pay, design = setup.draft.content.pay, setup.config.design
    hours = budget_in(setup).duration.minutes / 60
    rows = []
    for wanted in range(min(times) + 1, max(times) + 6) if times else ():
        lacking = sum(max(0, wanted - judges) for judges in times)
        people = ceil(lacking / (design.questions_per_form * design.forms_per_participant))
        rows.append((wanted, people, people * hours * (pay.per_hour if pay else 0)))
    return rows


def access(setup: Setup) -> str:
    """The fault of the access to Prolific's API; "" if there is none."""
    try:
        missing = Access.of_environment() is None
    except HsfiqError as error:
        return str(error)
    return setup.desk.t("The server has no Prolific token.") if missing else ""


def view(setup: Setup) -> Mapping[str, object]:
    languages = setup.config.study.languages
    groups = (*setup.draft.asked.categories, *setup.config.recruitment.quotas)
    shown = setup.desk.request.query_params.get("consent", "")
    shown = shown if shown in languages else languages[0]
    return {
        "modes": names_of_modes(setup),
        "shown": shown,
        "consent_key": "study.consent" if shown == languages[0] else f"study.{shown}.consent",
        "consent": consent_of(setup, shown),
        "ends": end_texts(setup, shown),
        "lacking": missing_in_consent(setup),
        "access": access(setup),
        "categories": dict.fromkeys(name for name in groups if name and "." not in name),
        "most_links": MOST_AT_ONCE,
        "currency": currency_of(setup),
        "paid": paid,
        **links_of(setup),
    }


# What the page can do.

ONLY_WITH: Mapping[str, Sequence[str]] = {
    "panel": ["panel"],
    "signed_links": ["prolific"],
    "platform_study_id": ["prolific"],
    "completion_url": ["open", "invitation", "prolific"],
    "full_code": ["open", "invitation", "prolific", "panel"],
}
"""The keys of `[recruitment]` that belong to some modes only."""


def choose_mode(setup: Setup) -> None:
    mode = setup.desk.text("value")
    if mode not in get_args(Mode):
        raise Refused(f"there is no {mode} to change")

    def change(content: Content) -> Content:
        table: dict[str, Any] = dict(content.value("recruitment", {}))
        kept = {key: value for key, value in table.items() if mode in ONLY_WITH.get(key, [mode])}
        if mode == "prolific" and not (kept.get("completion_code") or kept.get("completion_url")):
            kept["completion_code"] = new_code()
        if mode == "panel":
            kept.setdefault("panel", {"name": "", "person": "person"})
        return content.with_value("recruitment", kept | {"mode": mode})

    setup.change(change)


def write_end(setup: Setup) -> Said | None:
    """Store one of `ENDS` in a language of the study; an empty text is the app's own."""
    language, _, key = setup.desk.text("field").partition(" ")
    if language not in setup.config.study.languages or key not in ENDS:
        raise Refused(f"there is no {key} to change")
    setup.require_seen(dict(leaves(setup.draft.content.texts.get(language, {}))).get(key))
    text = setup.desk.text("value").strip() or None
    about = f"{language}.json: {key}"
    return change_text(setup, about, lambda content: with_text(content, language, key, text))


def draft_on_prolific(setup: Setup) -> Said:
    desk, pay, name = setup.desk, setup.draft.content.pay, setup.draft.study
    root = str(desk.request.base_url)
    if name is None or pay is None:
        raise Refused("draw the study and choose the pay first")
    if is_local(root):
        raise Refused(f"{root} is reachable only on this machine, not for people from Prolific")
    with Prolific(Access.required()) as client:
        at = Counterpart(desk.database, client, name, desk.actor)
        with desk.database.reading() as session:
            study, per_hour = study_called(session, name), Decimal(f"{pay.per_hour:g}")
            wanted = draft_of(session, study, root, per_hour, desk.text("description").strip())
        made = make_draft(at, wanted)
    return Said(desk.t("Its id on Prolific is {id}: choose there who may take part.", id=made.id))


def extend(setup: Setup) -> Said:
    """Add places until the chosen number of people judges each query."""
    desk, wanted, name = setup.desk, setup.desk.number("annotators"), setup.draft.study
    if not setup.is_fixed or not 0 < wanted <= 1_000:
        raise Refused(desk.t("These places cannot be added."))
    added = extend_while_running(
        desk.database,
        desk.actor,
        lambda session: study_called(session, name or ""),
        MoreAnnotators(wanted),
        datetime.now(UTC),
    )
    return Said(desk.n("{n} more place.", "{n} more places.", added.capacity.places))


STEP = Step(
    "people",
    "People and consent",
    summary,
    view,
    {"mode": choose_mode, "end": write_end, "prolific": draft_on_prolific, "extend": extend},
)


def add_links(app: FastAPI, studio: Studio) -> None:
    @app.post(f"{OWNER}/draft/{{token}}/links.csv")
    def links(
        request: Request, count: Annotated[str, Form()] = "", once: Annotated[str, Form()] = ""
    ) -> Response:
        """New personal links; they cannot be read again later."""
        desk = desk_of(studio, request, Permission.MANAGE)
        name = setup_of(desk).draft.study or ""
        with desk.database.writing() as session:
            study = study_called(session, name)
            made = new_links(
                session, study, number_in(count), desk.actor, str(request.base_url), once
            )
        return csv_file(f"{name}-links.csv", [("participant", "link"), *made])
