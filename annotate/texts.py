"""The texts that annotators read: what a study says in a language, and Markdown as HTML.

Guidelines and consent become HTML of a few harmless tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import nh3
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from sqlalchemy.orm import Session

from hsfiq.collect.participant_row import ParticipantRow, StudyRow
from hsfiq.collect.participants import language_of
from hsfiq.collect.places import counts_enrolments
from hsfiq.collect.protocol import LanguageView
from hsfiq.kinds import DEFAULT_KIND, KINDS
from hsfiq.kinds.single import lowest_good_score
from hsfiq.study import languages
from hsfiq.study.capacity import Duration, duration_of
from hsfiq.study.config import (
    QueryForm,
    Questionnaire,
    StudyConfig,
    Translation,
    n_sets_of,
    query_form,
    shows_garments,
)
from hsfiq.study.instrument import page_texts
from hsfiq.study.recruiting import PLATFORMS, Recruitment

# They are Markdown, whose HTML `html_of` sanitises.
GUIDELINES = Environment(  # noqa: S701
    loader=FileSystemLoader(languages.FOLDER),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

TAGS = {
    *("h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "blockquote", "hr", "br", "pre", "code"),
    *("strong", "em", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
"""What guidelines and consent may consist of."""


def entry_texts(language: str) -> dict[str, str]:
    entry: dict[str, str] = languages.standard_texts(language)["entry"]
    return entry


@dataclass(frozen=True, slots=True)
class StudyTexts:
    """What participants of a study read, in one language.

    `page` and `entry` are short texts, worded for the study's queries and its question kind.
    `guidelines` and the consents are Markdown; `own_consent` is "" if the owner has given none.
    """

    language: str
    title: str
    set_names: tuple[str, ...]
    guidelines: str
    own_consent: str
    standard_consent: str
    questionnaire: Questionnaire
    practice_explanation: str
    page: dict[str, Any]
    entry: dict[str, str]


def study_texts(session: Session, study: StudyRow, language: str | None = None) -> StudyTexts:
    """The texts of a study in one of its languages, by default the first."""
    form, language = query_form(session, study.id), language or study.config.study.language
    return texts_in(study.config, language, form, kind=study.kind, title=study.title)


def texts_in(
    config: StudyConfig, language: str, form: QueryForm, *, kind: str, title: str
) -> StudyTexts:
    """The texts of a study, stored or not, whose queries have this form, in one of its languages.

    Every text of a study that participants read is resolved here. The owner's texts in the language
    come first, then those in `[study]`, then the standard ones in the language or in English.
    """
    own = config.study.translations.get(language, Translation())
    instrument = config.study.instrument
    worded = languages.worded_texts(language, form, kind, own.texts, instrument)
    # Words for all languages come before the standard ones, and after those of this language.
    page = languages.overlaid(worded["page"], page_texts(config.wording))
    page = languages.overlaid(page, own.texts.get("page", {}))
    explained = own.texts.get("practice", {}).get("explanation", config.practice.explanation)
    names = own.set_names or set_names(config, worded["sets"])
    guidelines = own.guidelines.strip() or config.study.guidelines.strip()
    file = guidelines_file(language, form, kind)
    return StudyTexts(
        language=language,
        title=own.title or title,
        set_names=names,
        guidelines=guidelines or standard_guidelines(file, config, names, page),
        own_consent=own.consent.strip() or config.study.consent.strip(),
        standard_consent=standard_consent(language, config, worded["entry"], page),
        questionnaire=languages.translated_questionnaire(config.questionnaire, own.texts),
        practice_explanation=explained,
        page=page,
        entry=worded["entry"],
    )


def participant_texts(session: Session, participant: ParticipantRow) -> StudyTexts:
    return study_texts(session, participant.study, language_of(participant))


def languages_of(config: StudyConfig) -> list[LanguageView]:
    """The study's languages, each under its own name."""
    translations = config.study.translations
    return [
        {
            "tag": tag,
            "name": languages.own_name(tag, translations.get(tag, Translation()).texts),
            "direction": languages.direction(tag),
        }
        for tag in config.study.languages
    ]


def language_in(config: StudyConfig, headers: Mapping[str, str], wanted: str = "") -> str:
    """The study's language for a browser: the one that is wanted, or that it prefers."""
    offered = config.study.languages
    return wanted if wanted in offered else languages.preferred(accepted(headers), offered)


def language_for(headers: Mapping[str, str]) -> str:
    """The language for a browser without a study."""
    return languages.preferred(accepted(headers), languages.LANGUAGES)


def accepted(headers: Mapping[str, str]) -> str:
    return headers.get("accept-language", "")


def standard_consent(
    language: str, config: StudyConfig, entry: Mapping[str, str], page: Mapping[str, Any]
) -> str:
    """The standard consent as it applies to a study with these short texts."""
    asked, mode = config.questionnaire, config.recruitment.mode
    consent = GUIDELINES.get_template(f"consent.{complete(language)}.md").render(
        task=plain(entry["task"]),
        page=plain(page),
        further_questions=bool(asked.after_each or asked.at_end),
        is_live=KINDS[config.design.kind].is_live,
        platform=mode if mode in PLATFORMS else "",
        ids_stored=plain(stored_ids(config.recruitment, entry)),
        institution=plain(config.study.institution),
        contact=plain(config.study.contact),
        ethics=plain(config.study.ethics),
    )
    return consent.rstrip()


def stored_ids(recruitment: Recruitment, entry: Mapping[str, str]) -> str:
    """Which of a platform's ids are stored, "" without a platform."""
    text, panel = entry.get(f"{recruitment.mode}_id_stored", ""), recruitment.panel
    if panel is None:
        return text
    ids = [entry[f"panel_{each}_id"] for each in panel.kept_ids()]
    return text.format(platform=panel.name, ids=", ".join(ids))


def complete(language: str) -> str:
    """The language if its standard texts are complete, otherwise English."""
    return language if language in languages.LANGUAGES else languages.LANGUAGES[0]


def guidelines_file(language: str, form: QueryForm, kind: str) -> str:
    """The name of the standard guidelines' file."""
    part = kind if kind != DEFAULT_KIND else "" if form == "composed" else form
    return ".".join(filter(None, ("guidelines", part, complete(language), "md")))


def standard_guidelines(
    file: str, config: StudyConfig, names: Sequence[str], page: Mapping[str, Any]
) -> str:
    """The standard guidelines of this file, as they apply to a study with these texts.

    `names` are those of its sets.
    """
    design = config.design
    return GUIDELINES.get_template(file).render(
        k=design.k,
        set_names=plain(names),
        page=plain(page),
        words=plain(asdict(config.wording)),
        instrument=config.study.instrument,
        levels=str(design.levels),
        ties=design.preference_ties,
        reason_every=design.reason_every,
        has_sums=config.checks.arithmetic and design.forms_per_participant > 1,
        task=config.searches.task,
        target_seconds=config.searches.target_seconds,
        rounds=config.searches.rounds,
        chooser=config.searches.chooser,
        uploads=config.searches.uploads,
    )


def plain(texts: Any) -> Any:
    """The texts, with every sign escaped that Markdown may take for markup."""
    if isinstance(texts, str):
        return re.sub(r"([^\w\s])", r"\\\1", texts)
    if isinstance(texts, Mapping):
        return {name: plain(text) for name, text in texts.items()}
    return [plain(text) for text in texts]


def set_names(config: StudyConfig, usual: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the sets on the page, in the order shown; `usual` are those of its kind."""
    if config.study.set_names:
        return config.study.set_names
    n_live = KINDS[config.design.kind].n_live
    n_sets = n_live if n_live > 1 else n_sets_of(config.design)
    if n_sets < 2:
        return (usual["one"],) * n_sets
    return tuple(usual["numbered"].format(number=n) for n in range(1, n_sets + 1))


def drawn_text(texts: StudyTexts, config: StudyConfig) -> str:
    """The text of the drawn practice question, about what its images show."""
    text: str = texts.page["practice_text" if shows_garments(config) else "practice_text_shapes"]
    return text


def explanation_of_drawn(
    texts: StudyTexts, text: str, places: Mapping[int, int], better: int
) -> list[str]:
    """Why the drawn practice question has its answer, in paragraphs.

    `places` has the place on the page, from 1, at which each of the drawn sets is shown; `better`
    is the number of the set that matches.
    """
    numbered = {f"set_{number}": texts.set_names[place - 1] for number, place in places.items()}
    numbered["better"] = numbered.get(f"set_{better}", "")
    points = len(texts.page["anchors"])
    lowest = lowest_good_score(points)
    scores = {
        "good": score_range(lowest, points),
        "poor": score_range(1, points + 1 - lowest),
    }
    paragraphs = texts.page["practice_explanation"]
    return [part.format(**numbered, **scores, text=text) for part in paragraphs]


def score_range(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest}\N{EN DASH}{highest}"


def explanation_of_marked(texts: StudyTexts, expected: Mapping[str, Any]) -> list[str]:
    """The owner's own words on the practice question that they marked, or what is expected."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", texts.practice_explanation)]
    if any(paragraphs):
        return list(filter(None, paragraphs))
    sides = [expected["better"]] if "better" in expected else expected.get("order", [])
    scores = dict.fromkeys(expected[name] for name in ("lowest", "highest") if name in expected)
    sentence: str = texts.page["practice_expected"]
    values = {
        "sets": ", ".join(texts.set_names[side - 1] for side in sides),
        "scores": " – ".join(map(str, scores)),  # noqa: RUF001 (a range)
        "images": ", ".join(map(str, expected.get("fitting", []))),
        "verdict": texts.page["verdicts"].get(expected.get("verdict"), ""),
    }
    return [sentence.format(**values)]


def consent_text(session: Session, participant: ParticipantRow, n_questions: int) -> str:
    """The study's own consent text, or the standard one, as Markdown, with the facts about it."""
    study, source = participant.study, participant.source
    texts = participant_texts(session, participant)
    facts = facts_about(session, study, texts, n_questions)
    kept = [] if source == "invitation" else kept_of_address(study.config, study.origin, texts)
    return consent_with(texts, study.config, source, facts, kept)


def consent_with(
    texts: StudyTexts,
    config: StudyConfig,
    source: str,
    facts: Sequence[str],
    kept: Sequence[str],
) -> str:
    """The consent with facts about the study and what is kept of addresses.

    `source` is the mode in which a participant is recruited.
    """
    own = kept_data(texts) if texts.own_consent else []
    if texts.own_consent and source in PLATFORMS:
        own.append(plain(stored_ids(config.recruitment, texts.entry)))
    lines = "\n".join(f"- {fact}" for fact in (*facts, *own, *kept))
    return f"{texts.own_consent or texts.standard_consent}\n\n---\n\n{lines}\n"


def facts_about(
    session: Session, study: StudyRow, texts: StudyTexts, n_questions: int
) -> list[str]:
    """How many questions there are, about how long they take, and what failed checks lead to."""
    duration = duration_of(session, study.id, study.config, n_questions)
    return facts_with(study.config, texts, n_questions, duration)


def facts_with(
    config: StudyConfig, texts: StudyTexts, n_questions: int, duration: Duration
) -> list[str]:
    facts = [
        texts.entry["questions"].format(questions=n_questions),
        texts.entry[f"minutes_{duration.source}"].format(minutes=duration.minutes),
    ]
    if at_end := config.questionnaire.at_end:
        facts.append(texts.entry["questions_at_end"].format(questions=len(at_end)))
    if config.searches.uploads:
        facts.append(texts.entry["uploads"])
    if config.checks.on_failure != "none":
        rule = texts.entry[f"checks_{config.checks.on_failure}"]
        facts.append(rule.format(limit=config.recruitment.max_failed_checks))
    return facts


def kept_of_address(config: StudyConfig, origin: str, texts: StudyTexts) -> list[str]:
    """What is stored of the addresses of people who do not enrol by a personal link."""
    is_kept = counts_enrolments(config, origin)
    return [texts.entry["address_code_stored"]] if is_kept else []


def kept_data(texts: StudyTexts) -> list[str]:
    """What is stored about every participant, apart from `kept_of_address`."""
    return [texts.entry["data_stored"]]


@cache
def markdown_reader() -> MarkdownIt:
    """CommonMark with tables; HTML in the source is shown as text, and images are not loaded."""
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


@cache
def html_of(markdown: str) -> str:
    """Markdown as HTML that is safe to show: links open in a new tab, and nothing can be executed.

    Headings start at the third level: the page and its parts have their own above them.
    """
    reader = markdown_reader()
    tokens = reader.parse(markdown)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
    return nh3.clean(
        reader.renderer.render(tokens, reader.options, {}),
        tags=TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
