"""The published HP-FashionIQ layout: reading and writing.

One object: user -> question set -> six parallel lists. Scores and preferences are strings, image
paths end in `<category>/<image id>.<extension>`. The reader accepts only what `write` can write
back as the same JSON value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hsfiq.answer_rules import Answer, pair_values
from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place, kind, open_place
from hsfiq.records import JudgedPair, PublishedForm

K = 5
KEYS = (
    "ref_img_paths",
    "targ_img_paths",
    "sentences",
    "retrieved_set1",
    "retrieved_set2",
    "preferred set",
)
SET_KEYS = ("img_path", "user_score")

LONGEST_PERSON = LONGEST_FORM = 80
LONGEST_CATEGORY, LONGEST_IMAGE = 40, 75
"""In characters; a category and two image ids form the id of a triplet that has no other."""

_PATH = re.compile(
    r"(?P<root>(?:.*/)?)(?P<category>[^/]+)/(?P<name>[^/]+)(?P<extension>\.\w+)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PublishedStudy:
    """A published file: the pattern of its image paths and every participant's forms in order."""

    image_path: str
    forms: Sequence[PublishedForm]

    @property
    def n_questions(self) -> int:
        return sum(len(form.questions) for form in self.forms)


@dataclass(slots=True)
class ImagePaths:
    """The pattern of all image paths in a file, from the first path, and a form's categories."""

    pattern: str | None = None
    categories: set[str] = field(default_factory=set)

    def name(self, place: Place) -> str:
        """The image id of a path; `UnreadableInput` if the path does not follow the pattern."""
        path = place.text()
        match = _PATH.fullmatch(path)
        if match is None:
            raise place.wrong(
                f"{path!r} is not an image path",
                "expected <folder>/<category>/<image id>.<extension>",
            )
        root = match["root"].replace("{", "{{").replace("}", "}}")
        pattern = f"{root}{{category}}/{{name}}{match['extension']}"
        self.pattern = self.pattern or pattern
        if pattern != self.pattern:
            raise place.wrong(
                f"{path!r} does not follow the file's pattern {self.pattern}",
                "use one pattern for all images",
            )
        self.categories.add(place.with_value(match["category"]).name(LONGEST_CATEGORY))
        return place.with_value(match["name"]).name(LONGEST_IMAGE)


def read(path: Path) -> PublishedStudy:
    """Read a published file; `UnreadableInput` with the first place that has another layout."""
    paths = ImagePaths()
    top = open_place(path)
    forms = []
    for user, question_sets in top.items(LONGEST_PERSON):
        named = list(question_sets.items(LONGEST_FORM))
        if not named:
            raise question_sets.wrong("has no question set")
        forms += [read_form(user, name, place, paths) for name, place in named]
    if not forms or paths.pattern is None:
        raise UnreadableInput(str(path), "contains no question")
    return PublishedStudy(image_path=paths.pattern, forms=forms)


def read_form(user: str, name: str, place: Place, paths: ImagePaths) -> PublishedForm:
    place.only(*KEYS)
    columns = [place.key(key).list() for key in KEYS]
    lengths = {key: len(column) for key, column in zip(KEYS, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise place.wrong(f"the parallel lists differ in length ({listed})")
    paths.categories.clear()
    questions = [read_question(row, paths) for row in zip(*columns, strict=True)]
    if len(paths.categories) > 1:
        raise place.wrong(f"mixes the categories {', '.join(sorted(paths.categories))}")
    return PublishedForm(user, name, next(iter(paths.categories), ""), questions)


def read_question(row: tuple[Place, ...], paths: ImagePaths) -> JudgedPair:
    reference, target, sentence, set_1, set_2, preferred = row
    names = [paths.name(place) for place in (reference, target)]
    images_1, score_1 = read_set(set_1, paths)
    images_2, score_2 = read_set(set_2, paths)
    return JudgedPair(
        reference=names[0],
        target=names[1],
        text=sentence.text(),
        sets=(images_1, images_2),
        # The published file has no irrelevance flags.
        answer=Answer(pair_values(score_1, score_2, digit(preferred, "1", "2")), irrelevant=None),
    )


def read_set(place: Place, paths: ImagePaths) -> tuple[tuple[str, ...], int]:
    """The images of a retrieved set, best first, and its score."""
    place.only(*SET_KEYS)
    images = place.key("img_path")
    names = tuple(paths.name(image) for image in images.list())
    if len(names) != K:
        raise images.wrong(f"{len(names)} images instead of {K}")
    return names, digit(place.key("user_score"), "1", "2", "3", "4", "5")


def digit(place: Place, *allowed: str) -> int:
    """The number in a string, which must be one of these."""
    value = place.value
    if not isinstance(value, str) or value not in allowed:
        raise place.wrong(f"{kind(value)} is not one of the strings {', '.join(allowed)}")
    return int(value)


def write(study: PublishedStudy) -> dict[str, dict[str, dict[str, list[object]]]]:
    """The study as the JSON value of the layout; `read` of it gives the same study."""
    users: dict[str, dict[str, dict[str, list[object]]]] = {}
    for form in study.forms:
        users.setdefault(form.participant, {})[form.name] = dict(
            zip(KEYS, write_form(form, study.image_path), strict=True)
        )
    return users


def write_form(form: PublishedForm, pattern: str) -> Iterator[list[object]]:
    def path(name: str) -> str:
        return pattern.format(category=form.category, name=name)

    yield [path(question.reference) for question in form.questions]
    yield [path(question.target) for question in form.questions]
    yield [question.text for question in form.questions]
    for side in (0, 1):
        yield [
            {
                "img_path": [path(name) for name in question.sets[side]],
                "user_score": str(question.answer.values[f"score_{side + 1}"]),
            }
            for question in form.questions
        ]
    yield [str(question.answer.values["preferred"]) for question in form.questions]
