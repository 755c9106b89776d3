"""The step "Question": what is asked in which words and languages, beside a live preview."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.pages import render
from hsfiq.annotate.preview import framed_path, preview_of_draft, preview_path
from hsfiq.annotate.security import HEADERS, relative_root
from hsfiq.annotate.studio.setup import (
    Setup,
    Step,
    Summary,
    change_texts,
    setup_at,
    setup_of,
    typed,
)
from hsfiq.annotate.studio.shell import Said, Studio, desk_of, frame
from hsfiq.annotate.studio.systems import covered
from hsfiq.annotate.texts import guidelines_file, set_names, standard_guidelines
from hsfiq.answer_rules import FEWEST_POINTS, MOST_POINTS
from hsfiq.audit import record
from hsfiq.collect.stages import Stage
from hsfiq.drafts import Content, preview_file
from hsfiq.errors import HsfiqError, Refused
from hsfiq.kinds import KINDS
from hsfiq.kinds.query import VERDICTS
from hsfiq.study.config import QueryForm, n_sets_of
from hsfiq.study.config_file import OPTIONS
from hsfiq.study.instrument import EXTRA_TYPES, OF_OPTIONS, PAGE_TEXTS
from hsfiq.study.languages import (
    LANGUAGES,
    is_tag,
    leaves,
    nested,
    own_name,
    untranslated_texts,
    worded_texts,
)

# The preview.

UNCACHED = {"Cache-Control": "no-store"}


def preview_address(setup: Setup, *, walk: bool = False) -> str:
    """Where the draft's first question is shown, or with `walk` a participant's whole way."""
    shown = preview_file(setup.draft.content, setup.draft.folder).stem
    asked = setup.desk.request.query_params
    place = {"of": shown, "in": asked.get("in", ""), "at": asked.get("at", "")}
    query = {"walk": "1"} if walk else place
    return f"{setup.desk.root}draft/{setup.draft.token}/preview?{urlencode(query)}"


def add_preview_of_draft(app: FastAPI, studio: Studio) -> None:
    @app.get(f"{OWNER}/draft/{{token}}/preview")
    def preview(request: Request) -> Response:
        desk = desk_of(studio, request, Permission.MANAGE)
        setup, asked = setup_of(desk), request.query_params
        walk, account = "walk" in asked, desk.user.account_id
        at: Stage = "consent" if walk else "practice" if asked.get("at") else "asking"
        try:
            place = preview_of_draft(studio.services, setup.draft, account, asked.get("in", ""), at)
        except HsfiqError as error:
            why = str(error).replace(f"{setup.draft.folder}/", "")
            page = render("studio_unready.html", **frame(desk), title=setup.draft.title, why=why)
            return HTMLResponse(page, headers=HEADERS | UNCACHED)
        if walk:
            with desk.database.writing() as session:
                record(session, desk.actor, Action.STUDY_PREVIEW, study=setup.draft.name)
        path = (preview_path if walk else framed_path)(studio.services.signer, place)
        return RedirectResponse(relative_root(request) + path[1:], 303, UNCACHED)

    @app.get(f"{OWNER}/draft/{{token}}/texts/{{tag}}.json")
    def language_file(request: Request, tag: str) -> Response:
        """What study.toml needs beside it."""
        setup = setup_at(studio, request)
        texts = json.dumps(setup.draft.content.texts.get(tag, {}), ensure_ascii=False, indent=2)
        return Response(texts, media_type="application/json", headers=UNCACHED)


def unready(setup: Setup) -> tuple[str, str] | None:
    """What the preview needs first, with the step in which it is given."""
    t, material, design = setup.desk.t, setup.material, setup.config.design
    needed, count = n_sets_of(design), len(material.systems)
    needs_lists = KINDS[design.kind].needs_lists
    if setup.draft.content.dataset:
        return None
    if material.errors:
        return t("A file cannot be read: {file}.", file=min(material.errors)), "systems"
    if not material.queries:
        return t("There are no queries yet."), "images"
    if needs_lists and count < needed:
        text = t(
            "A question shows lists of {needed} systems; there are lists of {n}.",
            needed=needed,
            n=count,
        )
        return text, "systems"
    if needs_lists and any(each.absent for each in covered(setup)):
        return t("Some images of the lists are not there."), "systems"
    return None


# The texts of the question page, and what they are if nothing is written.


def standard(setup: Setup) -> Mapping[str, Any]:
    """The app's texts of the question page by the keys of `[wording]`, and the names of sets."""
    config = setup.config
    usual = replace(config, study=replace(config.study, set_names=()))
    texts = app_texts(setup)
    page = texts["page"]
    return {
        **{key: page[names[0]] for key, names in PAGE_TEXTS.items()},
        "anchors": page["anchors"],
        "levels": page["relevance_levels"][str(config.design.levels)],
        "set_names": set_names(usual, texts["sets"]),
    }


def app_texts(setup: Setup) -> dict[str, Any]:
    config = setup.config
    own = setup.draft.content.texts.get(config.study.language, {})
    study, kind = config.study, config.design.kind
    return worded_texts(study.language, form_of(setup), kind, own, study.instrument)


def form_of(setup: Setup) -> QueryForm:
    queries = [query for _, query in setup.material.queries]
    if queries and not any(query.reference for query in queries):
        return "text"
    return "image" if queries and not any(query.text for query in queries) else "composed"


ITEMS = {"wording.anchors": "anchors", "wording.levels": "levels", "study.set_names": "set_names"}
"""The keys of lists of texts, whose texts have a field each."""


def items_of(setup: Setup, key: str) -> list[str]:
    given = setup.value(key, None)
    is_given = isinstance(given, list) and all(isinstance(each, str) for each in given)
    return list(given if is_given else standard(setup)[ITEMS[key]])


# What has to be translated.


class Words(NamedTuple):
    """A language: its own name, and each text that it needs, with what was written for it."""

    tag: str
    name: str
    texts: Sequence[tuple[str, str | Sequence[str], str | Sequence[str]]]

    @property
    def n_missing(self) -> int:
        return sum(not given for _, _, given in self.texts)


def words_of(setup: Setup, tag: str) -> Words:
    config, own = setup.config, setup.draft.content.texts.get(tag, {})
    needed = untranslated_texts(config, tag, form_of(setup), {})
    given = dict(leaves(own))
    texts = [(f"{tag} {key}", text, given.get(key, "")) for key, text in needed.items()]
    if tag == config.study.language:
        return Words(tag, own_name(tag, own), texts)
    own_texts = ((name, getattr(config.study, name)) for name in ("title", "guidelines", "consent"))
    texts += [
        (f"study.{tag}.{name}", text, setup.value(f"study.{tag}.{name}"))
        for name, text in own_texts
        if text
    ]
    if setup.value("study.set_names", None):
        names = setup.value(f"study.{tag}.set_names")
        texts.append((f"study.{tag}.set_names", config.study.set_names, names))
    return Words(tag, own_name(tag, own), texts)


# The page.

SHORT = {
    "pair": "compare two sets",
    "single": "score one set",
    "images": "judge each image",
    "ranking": "rank the sets",
    "query": "check the queries",
    "search": "search, turn by turn",
    "arena": "arena",
}


def summary(setup: Setup) -> Summary:
    desk, others = setup.desk, setup.config.study.languages[1:]
    if wrong := setup.wrong("question"):
        return Summary(wrong, "bad")
    text = desk.t(SHORT[setup.config.design.kind])
    if missing := sum(words_of(setup, tag).n_missing for tag in others):
        n = desk.n("{n} text not translated", "{n} texts not translated", missing)
        return Summary(f"{text}, {n}", "warn")
    return Summary(text)


def view(setup: Setup) -> Mapping[str, object]:
    config = setup.config
    kind, answered = KINDS[config.design.kind], set(setup.material.answered)
    queries = [
        query
        for _, query in setup.material.queries
        if not kind.needs_lists or query.query_id in answered
    ]
    return {
        "kind": kind,
        "kinds": list(KINDS),
        "n_sets": n_sets_of(config.design),
        "standard": standard(setup),
        "items": {key: items_of(setup, key) for key in ITEMS},
        "points": (FEWEST_POINTS, MOST_POINTS),
        "words": [words_of(setup, tag) for tag in config.study.languages],
        "complete": [tag for tag in LANGUAGES if tag not in config.study.languages],
        "own_name": own_name,
        "extra_types": EXTRA_TYPES,
        "unready": unready(setup),
        "preview": preview_address(setup),
        "walk": preview_address(setup, walk=True),
        "read_in": setup.desk.request.query_params.get("in", ""),
        "read_at": setup.desk.request.query_params.get("at", ""),
        "queries": queries if len(queries) <= MOST_LISTED else (),
        "systems": {name: name for name in (*config.practice.systems, *setup.draft.asked.systems)},
        "verdicts": app_texts(setup)["page"].get("verdicts", {}),
    }


MOST_LISTED = 200
"""Queries in a list; of more, the name of one is entered."""


def choose_practice(setup: Setup) -> None:
    """Practise with a query of the study, or with the drawn garments of the app."""
    query, config = setup.desk.text("value").strip(), setup.config
    kind, n_sets = KINDS[config.design.kind], n_sets_of(config.design)
    usual = {"single": str(config.wording.points), "query": VERDICTS[0]}.get(kind.name, "1")
    systems = list(setup.draft.asked.systems[:n_sets]) if kind.needs_lists else None
    given = setup.value("practice", None)
    table = given if isinstance(given, dict) else {"systems": systems, "expected": usual}
    new = {**table, "query": query} if query else None
    setup.change(lambda content: content.with_value("practice", new))


def change(setup: Setup, key: str, changed: Callable[[Content], Content]) -> Said | None:
    """Change the draft; once its study has been opened, its texts alone."""
    if setup.is_fixed:
        return change_texts(setup, changed, key)
    setup.change(changed)
    return None


def change_kind(setup: Setup) -> Said:
    """Change what is asked; keys that the new kind cannot have are removed."""
    name = setup.desk.text("value")
    if name not in KINDS:
        raise Refused("there is no such kind of question")
    languages = setup.config.study.languages
    setup.change(lambda content: of_kind(content, name, languages))
    return Said(
        setup.desk.t("Changed to: {kind}.", kind=setup.desk.t(SHORT[name])), {"act": "undo"}
    )


def of_kind(content: Content, name: str, languages: Sequence[str]) -> Content:
    kind = KINDS[name]
    gone = {*(OPTIONS - kind.options), "practice", "study.set_names"}
    gone |= {f"study.{tag}.set_names" for tag in languages}
    if not kind.options & {"checks.gold", "checks.repeated"}:
        gone.add("checks.on_failure")
    if kind.is_live:
        gone |= {"queries.systems", "design.reason_every", "questionnaire.after_each"}
    gone |= {"searches.leaderboard", "searches.chooser"} if kind.is_live else {"searches"}
    for key in gone:
        content = content.with_value(key, None)
    if kind.n_live > 1:
        content = content.with_value("searches.task", "own-wish")
    return content.with_value("design.kind", name)


def save_item(setup: Setup) -> Said | None:
    """Store a text of a list, such as a point of the scale."""
    key, _, number = setup.desk.text("field").rpartition(".")
    value = setup.desk.text("value").strip()
    if key not in ITEMS or not number.isdecimal():
        raise Refused("there is no such text")
    items = items_of(setup, key)
    if int(number) >= len(items):
        raise Refused("there is no such text")
    setup.require_seen(items[int(number)])
    items[int(number)] = value
    usual = list(standard(setup)[ITEMS[key]])
    new = None if not any(items) or items == usual else items
    return change(setup, key, lambda content: content.with_value(key, new))


def change_points(setup: Setup) -> None:
    """Add a point in the middle of the scale, or remove one."""
    *others, last = items_of(setup, "wording.anchors")
    items = [*others, "", last] if setup.desk.text("by") == "1" else [*others[:-1], last]
    if not FEWEST_POINTS <= len(items) <= MOST_POINTS:
        raise Refused(setup.desk.t("A scale has 3 to 7 points."))
    setup.change(lambda content: content.with_value("wording.anchors", items))


def write_guidelines(setup: Setup) -> Said | None:
    """Begin an own text with the standard one, or return to that."""
    config, names = setup.config, items_of(setup, "study.set_names")
    file = guidelines_file(config.study.language, form_of(setup), config.design.kind)
    usual = standard_guidelines(file, config, names, app_texts(setup)["page"])
    text = None if setup.value("study.guidelines") else usual
    return change(setup, "study.guidelines", lambda c: c.with_value("study.guidelines", text))


def choose_language(setup: Setup) -> None:
    """Add a language, or remove it; its texts stay for the case that it is added again."""
    tag, languages = setup.desk.text("tag").strip(), list(setup.config.study.languages)
    if not is_tag(tag):
        raise Refused(
            setup.desk.t("{tag} is no language tag such as de, pt-BR or ko.", tag=tag[:40])
        )
    if tag == languages[0]:
        raise Refused(setup.desk.t("This is the main language."))
    changed = [each for each in languages if each != tag] if tag in languages else [*languages, tag]

    def of_languages(content: Content) -> Content:
        content = content if tag in changed else content.with_value(f"study.{tag}", None)
        content = content.with_value("study.language", None)
        return content.with_value("study.languages", changed)

    setup.change(of_languages)


def translate(setup: Setup) -> Said | None:
    """Store a text of a language file."""
    tag, _, key = setup.desk.text("field").partition(" ")
    words = words_of(setup, tag).texts
    needed = {name: text for name, text, _ in words}
    if tag not in setup.config.study.languages or f"{tag} {key}" not in needed:
        raise Refused("there is no such text")
    setup.require_seen(next(given for name, _, given in words if name == f"{tag} {key}"))
    is_list = not isinstance(needed[f"{tag} {key}"], str)
    value = typed(setup.desk.text("value").strip() or None, "list" if is_list else "text")

    return change(setup, f"{tag}.json: {key}", lambda content: with_text(content, tag, key, value))


def with_text(content: Content, tag: str, key: str, value: Any) -> Content:
    """The content with a text of a language file; None removes it."""
    own = dict(leaves(content.texts.get(tag, {}))) | {key: value}
    texts = nested({name: text for name, text in own.items() if text})
    return content.model_copy(update={"texts": {**content.texts, tag: texts}})


# Extra questions.

LISTS = ("questionnaire.after_each", "questionnaire.at_end")


def rows_of(setup: Setup, key: str) -> list[Any]:
    rows = setup.value(key, [])
    if key not in LISTS or not isinstance(rows, list):
        raise Refused("this question is no longer there")
    return list(rows)


def options_of(setup: Setup, kind: str) -> dict[str, Any]:
    """What a question of a type begins with."""
    t = setup.desk.t
    options = [t("Not at all"), "", t("Very")] if kind == "scale" else [t("Yes"), t("No")]
    return {"type": kind} | ({"options": options} if kind in OF_OPTIONS else {})


def add_question(setup: Setup) -> None:
    key, asked = setup.desk.text("list"), setup.config.questionnaire
    names = {question.name for question in (*asked.after_each, *asked.at_end)}
    name = next(f"question_{n}" for n in range(1, len(names) + 2) if f"question_{n}" not in names)
    new = {"name": name, "text": setup.desk.t("A new question"), **options_of(setup, "choice")}
    rows = [*rows_of(setup, key), new]
    setup.change(lambda content: content.with_value(key, rows))


def move_question(setup: Setup) -> Said | None:
    """Remove a question, or move it up."""
    key, number = setup.desk.text("list"), setup.desk.number("number")
    rows, is_moved = rows_of(setup, key), setup.desk.text("to") == "up"
    if not 0 <= number < len(rows):
        raise Refused("this question is no longer there")
    row = rows.pop(number)
    if is_moved:
        rows.insert(max(0, number - 1), row)
    setup.change(lambda content: content.with_value(key, rows or None))
    text = setup.desk.t("The question was removed.")
    return None if is_moved else Said(text, {"act": "undo"})


def change_type(setup: Setup) -> None:
    """Give an extra question another type, with the usual answers of that type."""
    key, _, number = setup.desk.text("field").removesuffix(".type").rpartition(".")
    kind, row = setup.desk.text("value"), setup.value(f"{key}.{number}", None)
    if key not in LISTS or kind not in EXTRA_TYPES or not isinstance(row, dict):
        raise Refused("there is no such type of question")
    kept = {name: row[name] for name in ("name", "text", "required") if name in row}
    kept |= options_of(setup, kind)
    setup.change(lambda content: content.with_value(f"{key}.{number}", kept))


STEP = Step(
    "question",
    "Question",
    summary,
    view,
    {
        "kind": change_kind,
        "practice": choose_practice,
        "item": save_item,
        "points": change_points,
        "guidelines": write_guidelines,
        "language": choose_language,
        "translate": translate,
        "add-question": add_question,
        "move-question": move_question,
        "type": change_type,
    },
)
