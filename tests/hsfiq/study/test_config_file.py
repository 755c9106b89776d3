"""CONFIG.toml: every key, the papers' defaults, and all mistakes at once, each with its line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigErrors, UnreadableInput
from hsfiq.study.config import (
    Checks,
    Design,
    Presentation,
    Queries,
    StudyConfig,
    Translation,
    config_of,
)
from hsfiq.study.config_file import FROM_FILES, RANGES, config_errors, read_config
from hsfiq.study.design import draw_study
from hsfiq.study.publication import AnalysisPlan
from hsfiq.study.recruiting import Panel, Recruitment
from tests.hsfiq.study.every_key import EVERY_KEY, OF_OTHER_KINDS
from tests.studies import make_queries

SHORTEST = '[study]\nname = "autumn"\ntitle = "Which shop?"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    """The error lines for a file, without its path."""
    path = written(folder, text)
    with pytest.raises(ConfigErrors) as error_info:
        read_config(path)
    assert str(error_info.value) == "\n".join(error_info.value.lines)
    for line in error_info.value.lines:
        assert line.startswith(f"{path}: ")
        assert "\n" not in line
    return [line.removeprefix(f"{path}: ") for line in error_info.value.lines]


# ----------------------------------------------------------------------------------- valid files


def test_the_shortest_file_gives_the_papers_design(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, SHORTEST))
    assert config == StudyConfig(study=Presentation("autumn", "Which shop?"))
    assert (config.study.instrument, config.study.set_names) == ("hsfiq-2", ())
    design = config.design
    assert (design.k, design.forms_per_participant, design.questions_per_form) == (5, 2, 25)
    assert (design.annotators_per_query, design.categories) == (1, "one")
    assert (design.image_order, design.preference_ties) == ("ranked", False)
    assert (config.checks.arithmetic, config.checks.gold, config.checks.repeated) == (True, 0, 0)


def test_every_key_is_read(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, EVERY_KEY))
    content = tomllib.loads(EVERY_KEY)
    for table in fields(StudyConfig):
        kind = get_type_hints(StudyConfig)[table.name]
        # A panel excludes the keys of Prolific; a test of the reference reads its table.
        left_out = {*FROM_FILES, "panel"}
        assert set(content[table.name]) == {key.name for key in fields(kind)} - left_out
        default = asdict(kind(name="", title="") if kind is Presentation else kind())
        read = asdict(getattr(config, table.name))
        for key, value in content[table.name].items():
            whole = json.loads(json.dumps(read[key]))
            if isinstance(whole, list) and whole and isinstance(whole[0], dict):
                written_keys = [
                    {name: row[name] for name in given}
                    for row, given in zip(whole, value, strict=True)
                ]
                assert written_keys == value
            else:
                assert whole == value
            if f"{table.name}.{key}" not in (*OF_OTHER_KINDS, "recruitment.quotas"):
                assert read[key] != default[key], f"{table.name}.{key} shows nothing"


def test_texts_may_be_in_files_beside_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/guidelines.md").write_text("# Look\n\ntwice 옷", encoding="utf-8")
    (tmp_path / "consent.md").write_text("I do.", encoding="utf-8")
    texts = 'guidelines = "texts/guidelines.md"\nconsent = "consent.md"\n'
    config = read_config(written(tmp_path, SHORTEST + texts))
    assert config.study.guidelines == "# Look\n\ntwice 옷"
    assert config.study.consent == "I do."


@pytest.mark.parametrize("text", ["Look at notes.md\nfirst.md", "Look twice", "a.markdown"])
def test_a_text_that_names_no_file_is_used_literally(tmp_path: Path, text: str) -> None:
    config = read_config(written(tmp_path, SHORTEST + f"guidelines = '''{text}'''"))
    assert config.study.guidelines == text


@pytest.mark.parametrize(
    "text",
    [
        'study.name = "autumn"\nstudy . title = "Which shop?"\n',
        'study = {name = "autumn", title = "Which shop?"}\n',
        '# [design]\n  [ study ]\n  name="autumn"\n  title = "Which shop?" # \'\'\'\n',
    ],
)
def test_equivalent_toml_spellings_are_read(tmp_path: Path, text: str) -> None:
    assert read_config(written(tmp_path, text)).study == Presentation("autumn", "Which shop?")


# -------------------------------------------------------------------------------------- mistakes

ALL_WRONG = """\
[study]
name = "../up"
guidelines = \"\"\"
[recruitment]
mode = "text"
\"\"\"
set_names = ["Same", "Same"]
titel = "misspelt"

[desing]
k = 3

[design]
k = 0
overlap_share = 1.5
questions_per_form = "25"
preference_ties = 1
lease_minutes = true
categories = "two"

[checks]
gold = -1
repeated = 9000
systems = "SPRC"

[queries]
categories = "shirt"
systems = ["SPRC"]
sample = 1.5

[recruitment]
mode = "mturk"
completion_url = "javascript:alert(1)"
participants = -2
"""


def test_all_mistakes_are_reported_with_their_lines(tmp_path: Path) -> None:
    study, design = ", ".join(f.name for f in fields(Presentation)[:-1]), "'one', 'mixed'"
    checks = ", ".join(f.name for f in fields(Checks))
    tables = ", ".join(table.name for table in fields(StudyConfig))
    assert mistakes(tmp_path, ALL_WRONG) == [
        f"line {line}"
        for line in (
            "1: study.title: is missing",
            "2: study.name: '../up' is not 1 to 80 letters, digits, '.', '_', '-'",
            "7: study.set_names: must be two different names",
            f"8: study.titel: is not a key here; there are {study}",
            f"10: desing: is not a table; there are {tables}",
            "14: design.k: 0 is not from 1 to 100",
            "15: design.overlap_share: 1.5 is not from 0 to 1",
            "16: design.questions_per_form: '25' is not a whole number",
            "17: design.preference_ties: 1 is not true or false",
            "18: design.lease_minutes: True is not a whole number",
            f"19: design.categories: 'two' is not one of {design}",
            "22: checks.gold: -1 is not from 0 to 1,000",
            "23: checks.repeated: 9000 is not from 0 to 1,000",
            f"24: checks.systems: is not a key here; there are {checks}",
            "27: queries.categories: 'shirt' is not a list of texts",
            "28: queries.systems: a question needs 2 systems; name as many, or leave it out",
            "29: queries.sample: 1.5 is not a whole number",
            "33: recruitment.completion_url: 'javascript:alert(1)' is not an http(s) address",
            "34: recruitment.participants: -2 is not 0 or more",
        )
    ]


WRONG_PLAN = """[analysis]
question = 'systems'
pair = ['a']
statistic = 'spearman'
margin = 0.5
alpha = 0
exclusions = ['slow']
"""


WRONG_PANEL = """[recruitment.panel]
name = ' '
person = 'study'
study = 'x y'
link = 'study=a#b&other=1'
complete = 'http://a.test/'
failed_checks = 'https://a.test/'
screen_out = 'https://{person}.test/'
quota_full = 'https://a.test/{session}'
places = 3
"""


@pytest.mark.parametrize("address", [
    "http://a.test/", "javascript:alert(1)", "//a.test/", "https://", "https:/a.test/",
    "https://user@a.test/", "https://a.test:x/", "https://a.test\\@b.test/", "https://{person}/",
    "https://a.test{person}/", "https://a.test:{person}/", "https://a..test/", "https://a.test/ b",
    "https://a.test/\N{DRESS}", "https://a.test/\n", "https://a.test/<script>", "https://a.test/\"x",
    "https://a.test/{}", "https://a.test/{0}", "https://a.test/{person", "https://a.test/person}",
    "https://a.test/{{person}}", "https://a.test/{session}", "https://a.test/{person!r}",
    "https://a.test/{person.__class__}",
])  # fmt: skip
def test_no_address_of_a_panel_lets_a_link_choose_the_host(address: str) -> None:
    config = StudyConfig(
        Presentation("a", "T"),
        recruitment=Recruitment(mode="panel", panel=Panel("Pool", "who", complete=address)),
    )
    ((key, _),) = config_errors(config)
    assert key == "recruitment.panel.complete"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["line 1: study.name: is missing", "line 1: study.title: is missing"]),
        ('[study]\nname = "a"\ntitle = "  "', ["line 3: study.title: is empty"]),
        (f"{SHORTEST}[design]\noverlap_share = nan", ["line 5: design.overlap_share: nan is n"]),
        (f"{SHORTEST}[design]\nlease_minutes = 999999", ["line 5: design.lease_minutes: 9"]),
        (f"{SHORTEST}[design]\nquestions_per_form = 2\n[checks]\nrepeated = 3", ["line 7: check"]),
        (f"{SHORTEST}[queries]\nsystems = ['a', 'a']", ["line 5: queries.systems: a question"]),
        (f"{SHORTEST}[queries]\nsplits = [1]", ["line 5: queries.splits: [1] is not a list"]),
        (
            f"{SHORTEST}[recruitment]\nmode = 'prolific'",
            ["line 4: recruitment.completion_code: is missing; prolific needs it"],
        ),
        (
            f"{SHORTEST}[recruitment]\nmode = 'mturk'\nfull_code = 'F'\ncompletion_url = 'http://a'",
            [
                "line 6: recruitment.full_code: cannot be used with mode",
                "line 7: recruitment.completion_url: cannot be used with mode",
            ],
        ),
        (f"{SHORTEST}[recruitment]\nmode = 'panel'", ["line 4: recruitment.panel: belongs"]),
        (
            f"{SHORTEST}[recruitment]\n[recruitment.panel]\nname = 'a'\nperson = 'b'",
            ["line 5: recruitment.panel: belongs to mode"],
        ),
        (
            f"{SHORTEST}[recruitment]\nmode = 'panel'\ncompletion_url = 'https://a/'\n{WRONG_PANEL}",
            [
                "line 6: recruitment.completion_url: cannot be used with mode",
                "line 8: recruitment.panel.name: must be one line of at most 80",
                "line 9: recruitment.panel.person: 'study' cannot be the name of a",
                "line 10: recruitment.panel.study: 'x y' cannot be the name of a",
                "line 11: recruitment.panel.link: 'study=a#b&other=1' must have the form study",
                "line 12: recruitment.panel.complete: 'http://a.test/' is not an https",
                "line 13: recruitment.panel.failed_checks: needs max_failed_checks",
                "line 14: recruitment.panel.screen_out: 'https://{person}.test/' is not an https",
                "line 15: recruitment.panel.quota_full: 'https://a.test/{session}' has braces that",
                "line 16: recruitment.panel.places: is not a key here; there are",
            ],
        ),
        (
            f"{SHORTEST}[recruitment]\nmode = 'panel'\n[recruitment.panel]\nname = 3",
            [
                "line 6: recruitment.panel.complete: is missing; so is recruitment.completion_code",
                "line 6: recruitment.panel.person: is missing",
                "line 7: recruitment.panel.name: 3 is not text",
            ],
        ),
        (f"{SHORTEST}set_names = ['A', ' ']", ["line 4: study.set_names: must be two different"]),
        (f'{SHORTEST}consent = "a\\u0000"', ["line 4: study.consent: contains a NUL"]),
        (f'{SHORTEST}set_names = ["a\\u0000", "b"]', ["line 4: study.set_names: contains a NUL"]),
        (f"{SHORTEST}[analysis]\nmargin = 0.1", ["line 4: analysis.question: is missing; it is"]),
        (f"{SHORTEST}[analysis]\nquestion = 'people'", ["line 5: analysis.question: 'people' is"]),
        (
            f"{SHORTEST}{WRONG_PLAN}",
            [
                "line 6: analysis.pair: must name two different systems",
                "line 7: analysis.statistic: 'spearman' is not one of 'win_rate', 'mean_score'",
                "line 8: analysis.margin: 0.5 is not between 0 and 0.5",
                "line 9: analysis.alpha: 0 is not between 0 and 0.5",
                "line 10: analysis.exclusions: 'slow' is not a filter; use one of invalid, failed",
            ],
        ),
        ("study = 3", ["line 1: study: must be a table"]),
        ("[[study]]\nname = 'a'", ["line 1: study: must be a table"]),
        ("[study]\nname = ", ["line 2: broken TOML (Invalid value)"]),
        ("[study]\nname = 'a'\nname = 'b'", ["line 3: broken TOML (Cannot overwrite"]),
        ("[study", ["line 1: broken TOML ("]),
        ("[study]\nname = 'a' b\n", ["line 2, column 12: broken TOML (Expected newline"]),
        ("a = " + "[" * 10_000, [""]),
    ],
)  # fmt: skip
def test_each_mistake_has_its_message(tmp_path: Path, text: str, expected: list[str]) -> None:
    lines = mistakes(tmp_path, text)
    assert len(lines) == len(expected)
    for line, beginning in zip(lines, expected, strict=True):
        assert beginning in line


def test_a_missing_text_is_named_with_its_file(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, SHORTEST + "guidelines = 'no.md'")
    assert line == f"line 4: study.guidelines: {tmp_path / 'no.md'}: there is no such file"


def test_filters_are_named_as_in_the_manifest(tmp_path: Path) -> None:
    plan = "[analysis]\nquestion = 'systems'\nexclusions = ['straight-lining', 'unseen']"
    exclusions = read_config(written(tmp_path, SHORTEST + plan)).analysis.exclusions
    assert exclusions == ("unseen", "straight-lining(run=10)")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no such file"), (b"\xff\xfe", "this is not UTF-8")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "study.toml").write_bytes(content)
    with pytest.raises(UnreadableInput, match=message):
        read_config(tmp_path / "study.toml")


def test_every_number_has_its_range() -> None:
    numbers = {
        f"{table}.{key}"
        for table, kind in get_type_hints(StudyConfig).items()
        for key, hint in get_type_hints(kind).items()
        if hint in (int, float)
    }
    assert numbers - set(RANGES) == {"design.seed"}
    assert set(RANGES) <= numbers


# ----------------------------------------------------------------------------------- round trips

ASCII = st.characters(codec="ascii")
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
configs = st.builds(
    StudyConfig,
    study=st.builds(
        Presentation,
        name=st.just("small"),
        title=texts,
        guidelines=texts,
        consent=texts,
        languages=st.sampled_from([("en",), ("ko",), ("ko", "en")]),
        set_names=st.tuples(texts, texts),
        translations=st.dictionaries(
            st.sampled_from(["de", "pt-BR"]),
            st.builds(
                Translation,
                title=texts,
                consent=texts,
                set_names=st.tuples(texts, texts),
                texts=st.fixed_dictionaries({"page": st.fixed_dictionaries({"next": texts})}),
            ),
        ),
    ),
    design=st.builds(
        Design,
        k=st.integers(1, 3),
        questions_per_form=st.integers(1, 5),
        forms_per_participant=st.integers(1, 3),
        annotators_per_query=st.integers(1, 3),
        overlap_share=st.floats(0, 1),
        categories=st.sampled_from(["one", "mixed"]),
        image_order=st.sampled_from(["ranked", "shuffled"]),
        preference_ties=st.booleans(),
        confirm_contradictions=st.booleans(),
        reason_every=st.integers(0, 9),
        lease_minutes=st.integers(1, 525_600),
        seed=st.integers(-(2**70), 2**70),
    ),
    checks=st.builds(Checks, arithmetic=st.booleans(), gold=st.just(0), repeated=st.integers(0, 1)),
    queries=st.builds(Queries, categories=st.lists(texts).map(tuple), sample=st.integers(0)),
    analysis=st.builds(
        AnalysisPlan,
        question=st.just("metrics"),
        pair=st.sampled_from([(), ("a", "b")]),
        statistic=st.sampled_from(["", "tie_half"]),
        margin=st.sampled_from([0.0, 0.1]),
        exclusions=st.sampled_from([(), ("unseen", "straight-lining(run=10)")]),
    ),
    recruitment=st.builds(
        Recruitment,
        mode=st.sampled_from(["open", "invitation", "prolific", "mturk"]),
        participants=st.integers(0),
        completion_code=texts,
        completion_url=texts,
    )
    | st.builds(
        Recruitment,
        mode=st.just("panel"),
        panel=st.builds(
            Panel,
            name=st.just("Pool"),
            person=st.from_regex(r"p[\w.-]{0,63}", fullmatch=True, alphabet=ASCII),
            session=st.sampled_from(["", "session"]),
            complete=st.from_regex(
                r"https://[a-z]+(/(\{person\}|[\w.~:@!$&'()*+,;=%-]){0,9})?(\?\w*)?",
                fullmatch=True,
                alphabet=ASCII,
            ),
        ),
    ),
)


def test_a_config_round_trips_through_the_database(database: Database) -> None:
    queries = make_queries(database)

    @settings(max_examples=30)
    @given(config=configs)
    def comes_back(config: StudyConfig) -> None:
        with database.writing() as session:
            draw_study(session, config, queries)
            session.flush()
            session.expire_all()
            assert config_of(session.scalars(select(Study)).one()) == config
            session.rollback()

    comes_back()


def test_an_imported_study_has_a_config_too(database: Database) -> None:
    with database.writing() as session:
        row = Study(
            name="hpfiq", title="Published", guidelines="", consent="", status="closed",
            origin="imported", k=5, ties_allowed=False, forms_per_participant=2, design={},
            image_path="",
        )  # fmt: skip
        session.add(row)
        session.flush()
        published = Presentation("hpfiq", "Published", instrument="papers")
        assert config_of(row) == StudyConfig(study=published)


def as_toml(value: Any) -> str:
    """A value in TOML syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {as_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
    return repr(value)


def keys_as_toml(values: dict[str, Any]) -> Iterator[str]:
    given = {key: value for key, value in values.items() if value is not None}
    return (f"{key} = {as_toml(v)}\n" for key, v in given.items() if key not in FROM_FILES)


def test_a_config_round_trips_through_a_file(tmp_path: Path) -> None:
    @settings(max_examples=30)
    @given(config=configs)
    def comes_back(config: StudyConfig) -> None:
        sound = replace(
            config,
            study=replace(config.study, title="t", set_names=("a", "b"), translations={}),
            recruitment=replace(config.recruitment, completion_url="", completion_code="x"),
        )
        tables = asdict(sound).items()
        text = "".join(f"[{table}]\n{''.join(keys_as_toml(values))}" for table, values in tables)
        if sound.study.guidelines.endswith(".md") or sound.study.consent.endswith(".md"):
            return
        assert read_config(written(tmp_path, text)) == sound

    comes_back()


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (
            "[design]\nkind = 'single'\npreference_ties = true",
            "line 6: design.preference_ties",
        ),
        ("[design]\nkind = 'query'\n[checks]\ngold = 1", "line 7: checks.gold: cannot be used"),
        ("[design]\nlevels = 3", 'line 5: design.levels: cannot be used with kind = "pair"'),
        ("[design]\nkind = 'images'\nlevels = 6", "line 6: design.levels: 6 is not from 2 to 5"),
        ("[practice]\nexpected = '1'", "line 4: practice.query: is missing"),
        (
            "[practice]\nquery = 'q'\nsystems = ['A', 'B']\nexpected = '3'",
            "line 7: practice.expected: '3' is not 1 or 2",
        ),
        (
            "[practice]\nquery = 'q'\nsystems = ['A', 'A']\nexpected = '1'",
            "line 6: practice.systems: must name 2 different systems",
        ),
        (
            "[design]\nkind='query'\n[practice]\nquery='q'\nsystems=['A']\nexpected='VALIDATED'",
            'line 8: practice.systems: cannot be used with kind = "query"',
        ),
        (
            "[practice]\nquery = 'q'\nsystems = ['A']\nexpected = '5-4'\n[design]\nkind = 'single'",
            "line 7: practice.expected: '5-4' begins with the higher score",
        ),
        (
            "[practice]\nquery = 'q'\nsystems = ['A']\nexpected = '6'\n[design]\nkind = 'images'",
            "line 7: practice.expected: '6' is not one or more different numbers from 1 to 5",
        ),
        ("[design]\nkind = 'both'", "line 5: design.kind: 'both' is not one of"),
    ],
)
def test_what_cannot_go_with_the_kind_is_refused(table: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read_config(written(tmp_path, f"{SHORTEST}{table}"))
    assert [each.partition(": ")[2][: len(line)] for each in refused.value.lines] == [line]


SEARCH_WRONG = """\
[study]
name = "searches"
title = "Find it"
[design]
kind = "search"
reason_every = 2
[checks]
gold = 1
[queries]
systems = ["SPRC"]
[searches]
rounds = 0
task = "guess"
[[searches.retrievers]]
name = "SPRC"
url = "ftp://a"
token_variable = "NO-HYPHEN"
[[searches.retrievers]]
name = "SPRC"
url = "http://127.0.0.1:1"
"""


def test_mistakes_of_searches_have_a_line_each(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, SEARCH_WRONG)
    assert [line.split(": ")[:2] for line in lines] == [
        ["line 6", "design.reason_every"],
        ["line 8", "checks.gold"],
        ["line 10", "queries.systems"],
        ["line 12", "searches.rounds"],
        ["line 13", "searches.task"],
        ["line 15", "searches.retrievers.1.name"],
        ["line 16", "searches.retrievers.1.url"],
        ["line 17", "searches.retrievers.1.token_variable"],
        ["line 19", "searches.retrievers.2.name"],
    ]
    lacking = SHORTEST + '[design]\nkind = "search"\n'
    assert mistakes(tmp_path, lacking) == [
        "line 1: searches.retrievers: is missing; a search needs a live retriever"
    ]
    unused = SHORTEST + '[searches]\ntask = "own-wish"\n'
    assert "it is for search" in mistakes(tmp_path, unused)[0]


ARENA_WRONG = """\
[study]
name = "arena"
title = "Find it"
[design]
kind = "arena"
[searches]
chooser = "top1"
[[searches.retrievers]]
name = "SPRC"
url = "http://127.0.0.1:1"
"""


def test_an_arena_needs_two_systems_and_wishes(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, ARENA_WRONG)
    same_image = "both systems are asked about the same image"
    assert sorted(line.partition("searches.")[2] for line in lines) == [
        f"chooser: 'top1' cannot be used with kind = \"arena\": {same_image}",
        "retrievers: an arena needs 2 live retrievers or more",
        'task: \'target-shown\' cannot be used with kind = "arena"; set it to "own-wish"',
    ]


def test_pictures_are_uploaded_only_for_wishes(tmp_path: Path) -> None:
    text = ARENA_WRONG.replace('"arena"\n[searches]', '"search"\n[searches]').replace(
        'chooser = "top1"', "uploads = true"
    )
    (line,) = mistakes(tmp_path, text)
    assert line.endswith(
        'searches.uploads: cannot be used with task = "target-shown"; it is for own-wish'
    )


def test_only_an_arena_has_a_leaderboard(tmp_path: Path) -> None:
    text = ARENA_WRONG.replace('"arena"\n[searches]', '"search"\n[searches]').replace(
        'chooser = "top1"', 'leaderboard = "public"'
    )
    (line,) = mistakes(tmp_path, text)
    assert line.endswith(
        "line 7: searches.leaderboard: 'public' is for arenas; kind = \"search\" has no leaderboard"
    )


@pytest.mark.parametrize(
    ("keys", "where", "what"),
    [
        ('type = "number"\nmin = 18\nmax = 17.5', "max", "17.5 is less than min, 18"),
        ('type = "number"\nmin = "18"', "min", "'18' is not a number"),
        ('type = "number"\nmax = inf', "max", "inf is not a number between"),
        ('type = "number"\nother = true', "other", 'is for "choice" and "choices"'),
        ('type = "text"\nmin = 1', "min", 'is for type = "number"'),
        ('type = "scale"\noptions = ["a", "b", "c"]\nother = true', "other", 'is for "choice"'),
    ],
)
def test_bounds_and_other_belong_to_certain_extra_questions(
    tmp_path: Path, keys: str, where: str, what: str
) -> None:
    question = f'[[questionnaire.at_end]]\nname = "age"\ntext = "How old?"\n{keys}\n'
    with pytest.raises(ConfigErrors) as error:
        read_config(written(tmp_path, SHORTEST + question))
    assert f"questionnaire.at_end.1.{where}: {what}" in str(error.value)
