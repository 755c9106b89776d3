"""What is wrong with a config whose values have the right types, by the key of study.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hsfiq.errors import Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import (
    PLATFORM_ID,
    SET_NAMES,
    Practice,
    Recruitment,
    StudyConfig,
    is_study_name,
    n_sets_of,
    rules_of,
)
from hsfiq.study.instrument.questionnaire import questionnaire_errors
from hsfiq.study.instrument.wording import wording_errors
from hsfiq.study.publishing.publication import publication_errors
from hsfiq.study.searching.config import Searches, retriever_errors

OPTIONS = frozenset().union(*(kind.options for kind in KINDS.values()))
"""The keys that only some kinds have."""

Errors = Iterator[tuple[str, str]]


def config_errors(config: StudyConfig, *, knows_kind: bool = True) -> Errors:
    """The key and the text of each error; without `knows_kind`, `design.kind` is not a kind."""
    yield from study_errors(config)
    if knows_kind:
        yield from kind_errors(config)
        yield from practice_errors(config)
        yield from searches_errors(config)
    yield from checks_errors(config)
    yield from recruitment_errors(config)
    yield from wording_errors(config.wording, config.design.levels)
    yield from questionnaire_errors(config.questionnaire)
    yield from publication_errors(config.release)


def study_errors(config: StudyConfig) -> Errors:
    study = config.study
    if not is_study_name(study.name):
        yield "study.name", f"{study.name!r} is not 1 to 80 letters, digits, '.', '_', '-'"
    if not study.title.strip():
        yield "study.title", "is empty"


def kind_errors(config: StudyConfig) -> Errors:
    """What cannot go together with the question kind."""
    kind, n_sets = KINDS[config.design.kind], n_sets_of(config.design)
    if config.study.set_names != SET_NAMES:
        yield from set_names_errors("study.set_names", config.study.set_names, n_sets)
    for tag, translation in config.study.translations.items():
        if translation.set_names:
            yield from set_names_errors(f"study.{tag}.set_names", translation.set_names, n_sets)
    for key in sorted(OPTIONS - kind.options):
        table, _, name = key.partition(".")
        values = getattr(config, table)
        if getattr(values, name) != getattr(type(values)(), name):
            kinds = " or ".join(k.name for k in KINDS.values() if key in k.options)
            yield key, f'cannot be used with kind = "{kind.name}"; it is for {kinds}'
    systems = config.queries.systems
    if systems and len(set(systems)) < n_sets:
        what = f"a question needs {n_sets} systems; name as many, or leave it out"
        yield "queries.systems", what


def searches_errors(config: StudyConfig) -> Errors:
    searches, kind = config.searches, KINDS[config.design.kind]
    if not kind.is_live:
        if searches != Searches():
            yield "searches", f'cannot be used with kind = "{kind.name}"; it is for search or arena'
        return
    if config.queries.systems:
        yield "queries.systems", "leave it out: searches.retrievers names the systems"
    if config.design.reason_every:
        yield "design.reason_every", "leave it out: after each search, a remark can be given"
    if config.questionnaire.after_each:
        yield "questionnaire.after_each", f'cannot be used with kind = "{kind.name}"; use at_end'
    if kind.n_live > 1 and searches.task != "own-wish":
        what = f'{searches.task!r} cannot be used with kind = "{kind.name}"'
        yield "searches.task", f'{what}; set it to "own-wish"'
    if kind.n_live > 1 and searches.chooser != "nearest":
        what = f'{searches.chooser!r} cannot be used with kind = "{kind.name}"'
        yield "searches.chooser", f"{what}: both systems are asked about the same image"
    if kind.n_live < 2 and searches.leaderboard != "owner":
        what = f'{searches.leaderboard!r} is for arenas; kind = "{kind.name}" has no leaderboard'
        yield "searches.leaderboard", what
    if searches.uploads and searches.task != "own-wish":
        what = f'cannot be used with task = "{searches.task}"; it is for own-wish'
        yield "searches.uploads", what
    yield from retriever_errors(searches, kind.n_live)


def set_names_errors(key: str, given: Sequence[str], n_sets: int) -> Errors:
    names = {name.strip() for name in given}
    if len(given) != n_sets or len(names) != n_sets or "" in names:
        wanted = ("no name", "one name", "two different names")
        named = wanted[n_sets] if n_sets < len(wanted) else f"{n_sets} different names"
        yield key, f"must be {named}"


def practice_errors(config: StudyConfig) -> Errors:
    practice, kind = config.practice, KINDS[config.design.kind]
    if not practice.query:
        if practice != Practice():
            yield "practice.query", "is missing"
        return
    try:
        kind.expected(practice.expected, rules_of(config))
    except Refused as error:
        yield "practice.expected", str(error)
    n_wanted = n_sets_of(config.design) if kind.needs_lists else 0
    if len(practice.systems) != n_wanted or len(set(practice.systems)) != n_wanted:
        names = "system" if n_wanted == 1 else "different systems"
        yield (
            "practice.systems",
            f"must name {n_wanted} {names}: those whose sets are shown"
            if n_wanted
            else f'cannot be used with kind = "{kind.name}", which shows no system\'s set',
        )


def checks_errors(config: StudyConfig) -> Errors:
    checks = config.checks
    if checks.repeated > config.design.questions_per_form:
        yield "checks.repeated", "is more than the questions of a form"
    if checks.on_failure == "none":
        return
    if config.recruitment.max_failed_checks < 0:
        yield "checks.on_failure", "needs recruitment.max_failed_checks"
    elif not (checks.gold or checks.repeated):
        yield "checks.on_failure", "needs gold or repeated questions"


def mturk_errors(recruitment: Recruitment) -> Errors:
    if recruitment.completion_url:
        what = "the page sends the HIT back to Mechanical Turk"
        yield "recruitment.completion_url", f'cannot be used with mode = "mturk": {what}'
    if recruitment.full_code:
        what = "who arrives too late returns the HIT"
        yield "recruitment.full_code", f'cannot be used with mode = "mturk": {what}'


def recruitment_errors(config: StudyConfig) -> Errors:
    recruitment = config.recruitment
    url = recruitment.completion_url
    if url and not re.fullmatch(r"https?://[^\s/]+\S*", url):
        yield "recruitment.completion_url", f"{url!r} is not an http(s) address"
    if recruitment.mode == "prolific" and not (url or recruitment.completion_code):
        yield "recruitment.completion_code", "is missing; prolific needs it"
    if recruitment.mode == "mturk":
        yield from mturk_errors(recruitment)
    if recruitment.quotas and config.design.categories == "mixed":
        what = "cannot be used with design.categories"
        yield "recruitment.quotas", f'{what} = "mixed": its forms have no category'
    if recruitment.failed_checks_code and recruitment.max_failed_checks < 0:
        yield "recruitment.failed_checks_code", "needs max_failed_checks"
    if recruitment.signed_links and recruitment.mode != "prolific":
        yield "recruitment.signed_links", 'needs mode = "prolific"'
    platform_study = recruitment.platform_study_id
    if platform_study and recruitment.mode != "prolific":
        yield "recruitment.platform_study_id", 'needs mode = "prolific"'
    elif platform_study and not PLATFORM_ID.fullmatch(platform_study):
        yield "recruitment.platform_study_id", f"{platform_study!r} is not an id of Prolific"
