"""The tables of releases: columns with their types, units, meanings and nulls.

All other column descriptions are derived from it: the Parquet schema, the dataset card,
croissant.json, the reference in the documentation, and the checks of a release. Usage:

- `RELEASE_KINDS[kind].all_tables()` (`hsfiq.kinds`) has the tables of a kind by name, in the order
  of the card. A release has those for which there is something: see `Table.present`.
- `table.arrow()` is the pyarrow schema to write Parquet with. A column without a null rule is not
  nullable in it, so that pyarrow refuses to write a null there.
- `table.columns` are in the order of the files; `table["score"]` is a column by name.
- `table.key` identifies a row, `column.refers_to` ("queries.query_id") names the column that has
  the value, and `column.values`, `lowest` and `highest` say which values there can be; of a column
  with `on_scale`, the highest is the manifest's `scale.points`. Of a list they
  are about its members.

New columns are added only here or in the module of a kind. Older releases lack them, so readers of
releases must check for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from hsfiq.answer_rules import IMAGE_STATES

if TYPE_CHECKING:  # a server describes tables, and needs no pyarrow for that
    import pyarrow as pa

ColumnType = Literal[
    "text", "texts", "flag", "points", "whole", "wholes", "number", "numbers", "time", "content"
]
"""A type of columns; `hsfiq.arrow_columns.ARROW_TYPES` has Arrow's type of each."""

TEXT: ColumnType = "text"
TEXTS: ColumnType = "texts"
FLAG: ColumnType = "flag"
POINTS: ColumnType = "points"
WHOLE: ColumnType = "whole"
WHOLES: ColumnType = "wholes"
NUMBER: ColumnType = "number"
NUMBERS: ColumnType = "numbers"
TIME: ColumnType = "time"
CONTENT: ColumnType = "content"

TYPE_NAMES: dict[ColumnType, str] = {
    TEXT: "text",
    TEXTS: "list of texts",
    FLAG: "true or false",
    POINTS: "whole number",
    WHOLE: "whole number",
    WHOLES: "list of whole numbers",
    NUMBER: "number",
    NUMBERS: "list of numbers",
    TIME: "time (UTC)",
    CONTENT: "bytes of a file",
}
"""For people, in the card and in docs/reference/releases.md."""

UNKNOWN = "it is unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        meaning: the meaning of a value, without the name, the type or the unit.
        unit: such as "seconds"; None for ids, texts, flags and places.
        null: when the value is null, as in "null if {null}"; None if it never is.
        values: all possible values, if they are few.
        refers_to: the table and the column that have the value, as in "queries.query_id".
    """

    name: str
    type: ColumnType
    meaning: str
    unit: str | None = None
    null: str | None = None
    values: tuple[str | int, ...] = ()
    lowest: float | None = None
    highest: float | None = None
    on_scale: bool = False
    refers_to: str | None = None

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.type]

    @property
    def null_rule(self) -> str:
        """For example: "null if times were not recorded", or "never null"."""
        return f"null if {self.null}" if self.null else "never null"

    @property
    def is_list(self) -> bool:
        return self.type in (TEXTS, WHOLES, NUMBERS)

    @property
    def arrow_type(self) -> pa.DataType:
        from hsfiq.arrow_columns import ARROW_TYPES  # noqa: PLC0415 -- imports pyarrow

        return ARROW_TYPES[self.type]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a release.

    Attributes:
        meaning: a description of a row, as in "one row a question: ...".
        key: the columns that identify a row; empty if rows may be equal.
        present: the condition under which a release has the table; empty for always.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    present: str = ""
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {column.name: column for column in self.columns}
        if len(by_name) < len(self.columns) or not by_name.keys() >= set(self.key):
            raise ValueError(f"table {self.name} has a column twice, or lacks one of its key")
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, column: str) -> Column:
        return self._by_name[column]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    @property
    def has_lines(self) -> bool:
        """Whether the table is also written as JSON lines, which cannot hold files."""
        return all(column.type != CONTENT for column in self.columns)

    def arrow(self) -> pa.Schema:
        import pyarrow as pa  # noqa: PLC0415 -- when a table is written

        return pa.schema(
            [
                pa.field(column.name, column.arrow_type, nullable=column.null is not None)
                for column in self.columns
            ]
        )


def without(columns: tuple[Column, ...], *names: str) -> tuple[Column, ...]:
    """The columns but those with these names."""
    return tuple(column for column in columns if column.name not in names)


def renamed(columns: tuple[Column, ...], suffix: str) -> tuple[Column, ...]:
    return tuple(replace(column, name=f"{column.name}{suffix}") for column in columns)


# The columns that the answers of several kinds share, and the table of their sets.

STATES = (
    "missing (no file), unloaded, loaded (but never in view), shown (its middle was in view) or "
    "enlarged"
)
SYSTEM = Column("system", TEXT, "the retrieval system of the set", null="systems were not named")

QUESTION_ID = Column("question_id", TEXT, "the question: `<participant>.<form>.<place>`")
PARTICIPANT_ID = Column(
    "participant_id", TEXT, "the annotator's pseudonym, the same in all tables of the release"
)
QUERY_ID = Column("query_id", TEXT, "the query", refers_to="queries.query_id")
IDS = (QUESTION_ID, PARTICIPANT_ID, QUERY_ID)

FORM = Column("form", TEXT, "the participant's form that contains the question")
PLACE = Column("place", WHOLE, "of the question in its form, from 0", lowest=0)
SHOWN_TEXT = Column(
    "text", TEXT, "of the query, exactly as in its source; empty if the query is an image alone"
)
ITEM_ID = Column("item_id", TEXT, "the judged item: the same for all its judges")

ASKED = (QUESTION_ID, PARTICIPANT_ID, FORM, PLACE, QUERY_ID, ITEM_ID, SHOWN_TEXT)
"""What the main table of each kind but `pair` has first."""

ANSWERED = (
    Column(
        "irrelevant",
        FLAG,
        "whether the question was flagged irrelevant",
        null="flags were not recorded",
    ),
    Column("revision", WHOLE, "of the answer: 1, or more if it was changed", lowest=0),
    Column("served_at", TIME, "when the question was shown", null="times were not recorded"),
    Column(
        "first_interaction_at",
        TIME,
        "when the participant first did something on the page",
        null="times were not recorded",
    ),
    Column("submitted_at", TIME, "when the answer was given", null="times were not recorded"),
    Column(
        "active_seconds",
        NUMBER,
        "the time with the page in use, of all revisions together",
        unit="seconds",
        null="times were not recorded",
        lowest=0,
    ),
    Column(
        "failed_checks",
        WHOLE,
        "how many attention checks of the question's form were failed",
        unit="checks",
        null="no check was answered",
        lowest=0,
    ),
    Column(
        "images_painted",
        FLAG,
        "whether every image was shown or enlarged before the answer",
        null=UNKNOWN,
    ),
    Column(
        "images_enlarged",
        WHOLE,
        "how many images were enlarged before the answer, the reference included",
        unit="images",
        null=UNKNOWN,
        lowest=0,
    ),
    Column(
        "reference_state",
        TEXT,
        f"the state of the reference image when the answer was given: {STATES}",
        null="it is unknown, or the query has no reference",
        values=IMAGE_STATES,
    ),
    Column(
        "text_version",
        WHOLE,
        "the version of the study's texts that the page showed, as in text_versions.json",
        null=UNKNOWN,
        lowest=1,
    ),
    Column("language", TEXT, "of the page, as a BCP 47 tag", null=UNKNOWN),
)
"""What the main table of every kind has last."""

SCORE = Column(
    "score", POINTS, "the Likert score of the set", unit="points", lowest=1, on_scale=True
)
SET_ID = Column("set_id", TEXT, "the set as judged: `<question_id>.<side>`")
IMAGE_STATES_COLUMN = Column(
    "image_states",
    TEXTS,
    f"the state of each image of image_ids when the answer was given: {STATES}",
    null=UNKNOWN,
    values=IMAGE_STATES,
)

SET_COLUMNS = (
    SET_ID,
    QUESTION_ID,
    Column("side", POINTS, "the place of the set in its question, from 1", lowest=1),
    PARTICIPANT_ID,
    QUERY_ID,
    SYSTEM,
    Column("image_ids", TEXTS, "the images of the set, best first"),
    Column(
        "shown_order",
        WHOLES,
        "the places of the images in image_ids, from 0, in the order in which they were shown",
        null="they were shown best first",
        lowest=0,
    ),
    IMAGE_STATES_COLUMN,
)
SETS = Table(
    "sets",
    "one row a retrieved set as judged: its images, best first, and its score",
    (*SET_COLUMNS, SCORE),
    key=("set_id",),
)


# The tables that releases of every kind have.

QUERIES = Table(
    "queries",
    "one row a query: reference, target and text; each may be absent",
    (
        Column("query_id", TEXT, "the id of the triplet, with a suffix for other texts than its"),
        Column("triplet_id", TEXT, "the pair of reference and target that the query is of"),
        Column("dataset", TEXT, "where the query comes from"),
        Column("category", TEXT, "such as the type of garment; empty if the dataset has none"),
        Column("split", TEXT, "of the dataset, such as val", null="the dataset has none"),
        Column("reference_id", TEXT, "the reference image", null="the query is a text alone"),
        Column("target_id", TEXT, "the labelled target image", null=UNKNOWN),
        Column(
            "text", TEXT, "exactly as in its source; empty if the query is an image alone"
        ),
        Column("text_shown", TEXT, "the text as annotators read it"),
        Column("captions", TEXTS, "of the triplet, in the dataset's order; the text is made of it"),
    ),
    key=("query_id",),
)  # fmt: skip
EXCLUSIONS = Table(
    "exclusions",
    "one row a dropped question, with the rule and the value that dropped it, and with all rules "
    "that it broke",
    (
        QUESTION_ID,
        PARTICIPANT_ID,
        Column("query_id", TEXT, "the query, which `queries` has if a kept question is about it"),
        Column(
            "rule",
            TEXT,
            "the rule that dropped it: the first rule that it broke, in the order of the funnel",
        ),
        Column("value", TEXT, "the value for which the rule dropped it"),
        Column("rules", TEXTS, "all rules that it broke, in the order of the funnel"),
        Column("values", TEXTS, "for each of the rules, the value that broke the rule"),
    ),
)
SPLITS = Table(
    "splits",
    "one row a question: its part, train, test or unused (in neither)",
    (
        QUESTION_ID,
        Column("part", TEXT, "the part of the question", values=("train", "test", "unused")),
    ),
    key=("question_id",),
    present="a split was asked for",
)

FIELD = Column("field", TEXT, "the name of the extra question", refers_to="fields.field")
_ANSWER = (
    FIELD,
    Column(
        "number",
        NUMBER,
        'the number itself, or that of the option, from 1; "Other" comes after the options',
        null="the answer is a text, or there is none",
    ),
    Column(
        "value",
        TEXT,
        'the option\'s wording, or the text, also that of "Other"',
        null="the answer is a number, there is none, or texts were omitted",
    ),
)
NO_BOUND = "there was no such bound"
FIELDS = Table(
    "fields",
    "one row an extra question of the study's owner: its type, wording, options and bounds",
    (
        Column("field", TEXT, "the name of the question, as in the tables of answers"),
        Column("asked", TEXT, "after each question; or once, at the end"),
        Column(
            "type",
            TEXT,
            "choice (one option), choices (any options), scale (ordered options), number or text",
            values=("choice", "choices", "scale", "number", "text"),
        ),
        Column("wording", TEXT, "as annotators read it"),
        Column("options", TEXTS, "in the order shown", null="it asks for a number or a text"),
        Column("required", FLAG, "whether it had to be answered"),
        Column("min", NUMBER, "the least number that was accepted", null=NO_BOUND),
        Column("max", NUMBER, "the greatest number that was accepted", null=NO_BOUND),
        Column("other", FLAG, 'whether "Other", with a text, came after the options'),
    ),
    key=("field",),
    present="the owner asked extra questions",
)
EXTRA_ANSWERS = Table(
    "extra_answers",
    "one row an answer to an extra question: each chosen option has its row, and without an answer "
    "number and value are null",
    (QUESTION_ID, PARTICIPANT_ID, *_ANSWER),
    present="the owner asked extra questions after each question",
)
PARTICIPANT_ANSWERS = Table(
    "participant_answers",
    "one row an answer to a question at the end, as in extra_answers; none of participants who did "
    "not reach the end",
    (PARTICIPANT_ID, *_ANSWER),
    present="the owner asked extra questions at the end",
)

REASONS = Table(
    "reasons",
    "one row a reason that a participant wrote for a flag or an answer",
    (
        QUESTION_ID,
        PARTICIPANT_ID,
        Column("reason", TEXT, "as written, without leading and trailing spaces"),
    ),
    key=("question_id",),
    present="a kept answer has a reason, unless reasons were omitted (`--without texts`)",
)
ABSENT = "the file is absent or cannot be decoded"
IMAGES = Table(
    "images",
    "one row an image that queries, sets and turns name, with its file",
    (
        Column("dataset", TEXT, "the dataset of the image"),
        Column("image_id", TEXT, "the image"),
        Column(
            "file_name", TEXT, "the last part of the id, with the file's extension", null=ABSENT
        ),
        Column("width", WHOLE, "of the image as stored", "pixels", null=ABSENT, lowest=1),
        Column("height", WHOLE, "of the image as stored", "pixels", null=ABSENT, lowest=1),
        Column("bytes", WHOLE, "the size of the file", "bytes", null=ABSENT, lowest=1),
        Column("sha256", TEXT, "the digest of the file", null=ABSENT),
        Column("image", CONTENT, "the file", null=ABSENT),
    ),
    key=("dataset", "image_id"),
    present="images were asked for (`--with-images`)",
)

SHARED_TABLES = (
    QUERIES,
    EXCLUSIONS,
    SPLITS,
    REASONS,
    FIELDS,
    EXTRA_ANSWERS,
    PARTICIPANT_ANSWERS,
    IMAGES,
)
"""In the order of the dataset card, after the kind's own tables."""
