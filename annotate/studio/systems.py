"""The step "Systems": ranked lists, names of systems, and a few queries side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import func, select

from hsfiq.annotate.studio.images import forget, number_of, remove, uploading
from hsfiq.annotate.studio.setup import Setup, Step, Summary
from hsfiq.annotate.studio.shell import Said
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.drafts import Content, Material, material_of
from hsfiq.errors import Refused
from hsfiq.images.folder import UnknownName
from hsfiq.importing import stored_query
from hsfiq.kinds import KINDS
from hsfiq.readers.files import Place
from hsfiq.readers.runs import system_name
from hsfiq.records import OwnQuery
from hsfiq.study.config import n_sets_of
from hsfiq.text import first_few

# What the uploaded lists cover.

Lists = Mapping[str, Mapping[str, Sequence[str]]]
"""The images that are shown, by system and query."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The uploaded lists of a system, up to the number of images shown.

    Attributes:
        key: its file and its name there, as in `Content.names`.
        missing, short: the queries without a list, and with too few images.
        same: the number of queries for which another system has the same images.
        absent: missing images.
        unknown: missing queries.
    """

    name: str
    key: str
    n_lists: int
    missing: Sequence[str]
    short: Sequence[str]
    same: Sequence[tuple[str, int]]
    absent: Sequence[str]
    unknown: Sequence[str]

    @property
    def full(self) -> int:
        return self.n_lists - len(self.short) - len(self.unknown)


def covered(setup: Setup) -> Sequence[Coverage]:
    parts = setup.draft.content.model_dump_json(include={"files", "columns", "repairs", "names"})
    return _covered(parts, setup.draft.folder, setup.config.design.k)


@lru_cache(maxsize=8)
def _covered(parts: str, folder: Path, k: int) -> Sequence[Coverage]:
    material = material_of(Content.model_validate_json(parts), folder)
    lists: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for _, ranked in material.lists:
        lists[ranked.system][ranked.query_id] = ranked.images[:k]
    return [coverage_of(name, lists, material, k) for name in lists]


def coverage_of(name: str, lists: Lists, material: Material, k: int) -> Coverage:
    """For a dataset in the database, the lists are not compared with queries and images."""
    own = lists[name]
    known = [query.query_id for _, query in material.queries]
    images = dict.fromkeys(image for shown in own.values() for image in shown)
    same = {
        other: sum(theirs.get(query) == images for query, images in own.items())
        for other, theirs in lists.items()
        if other != name
    }
    return Coverage(
        name,
        key="/".join(material.sources[name]),
        n_lists=len(own),
        missing=[query for query in known if query not in own],
        short=[query for query in known if query in own and len(own[query]) < k],
        same=[(other, count) for other, count in same.items() if count],
        absent=[each for each in images if material.images and not image_id(material, each)],
        unknown=sorted(own.keys() - set(known)) if known else [],
    )


def image_id(material: Material, name: str) -> str | None:
    try:
        return material.images.id_of(name) if material.images else None
    except UnknownName:
        return None


# Systems with lists in the database, for a dataset that is there.


class StoredSystem(NamedTuple):
    name: str
    n_lists: int
    is_chosen: bool


def stored_systems(setup: Setup) -> list[StoredSystem]:
    chosen, own = setup.config.queries.systems, setup.material.systems
    with setup.desk.database.reading() as session:
        rows = session.execute(
            select(System.name, func.count())
            .join(RankedList, RankedList.system_id == System.id)
            .join(Query, RankedList.query_id == Query.id)
            .join(Query.triplet)
            .join(Dataset, Triplet.dataset_id == Dataset.id)
            .where(Dataset.name == setup.draft.content.dataset)
            .group_by(System.name)
            .order_by(System.name)
        ).all()
    stored = [StoredSystem(name, count, not chosen or name in chosen) for name, count in rows]
    return [system for system in stored if system.name not in own]


# Some queries side by side.

AT_ONCE = 5


class Sheet(NamedTuple):
    """Queries, the images of each by system and query, the addresses of images by name."""

    queries: Sequence[OwnQuery]
    lists: Lists
    addresses: Mapping[str, str]
    n_queries: int


def sheet_of(setup: Setup, page: int) -> Sheet:
    if setup.draft.content.dataset:
        return stored_sheet(setup, page)
    material, at = setup.material, f"draft/{setup.draft.token}/image/"
    queries = [query for _, query in material.queries]
    shown = queries[page * AT_ONCE :][:AT_ONCE]
    ids, lists = {query.query_id for query in shown}, defaultdict[str, dict[str, list[str]]](dict)
    for _, ranked in material.lists:
        if ranked.query_id in ids:
            images = [image_id(material, each) or each for each in ranked.images]
            lists[ranked.system][ranked.query_id] = images
    names = {image for own in lists.values() for images in own.values() for image in images}
    names |= {query.reference for query in shown if query.reference}
    addresses = {name: f"{at}{quote(name)}" for name in names if image_id(material, name)}
    return Sheet(shown, lists, addresses, len(queries))


def stored_sheet(setup: Setup, page: int) -> Sheet:
    of_dataset = (
        select(Query)
        .join(Query.triplet)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .where(Dataset.name == setup.draft.content.dataset)
    )
    with setup.desk.database.reading() as session:
        n_queries = session.scalar(of_dataset.with_only_columns(func.count())) or 0
        rows = of_dataset.order_by(Query.id).offset(page * AT_ONCE).limit(AT_ONCE)
        found = {query.id: query for query in session.scalars(rows)}
        queries = {key: stored_query(query) for key, query in found.items()}
        ranked = session.execute(
            select(System.name, RankedList.query_id, RankedList.image_ids)
            .join(System, RankedList.system_id == System.id)
            .where(RankedList.query_id.in_(found))
        ).all()
        keys = {image for _, _, images in ranked for image in images[:MOST_IMAGES]}
        keys |= {query.triplet.reference_id or 0 for query in found.values()}
        images = {i.id: i for i in session.scalars(select(Image).where(Image.id.in_(keys)))}
    lists = defaultdict[str, dict[str, list[str]]](dict)
    for name, query, own in ranked:
        lists[name][queries[query].query_id] = [images[key].name for key in own[:MOST_IMAGES]]
    addresses = {image.name: f"image/{image.token}" for image in images.values()}
    return Sheet(list(queries.values()), lists, addresses, n_queries)


MOST_IMAGES = 100


# The page.


def summary(setup: Setup) -> Summary:
    desk, content, needed = setup.desk, setup.draft.content, n_sets_of(setup.config.design)
    if not KINDS[setup.config.design.kind].needs_lists:
        return Summary(desk.t("not needed"))
    uploaded = covered(setup)
    count = len(uploaded) + sum(system.is_chosen for system in stored_systems(setup))
    text = desk.n("{n} system", "{n} systems", count)
    gaps = sum(bool(each.missing or each.short) for each in uploaded)
    if any(file.name in setup.material.errors for file in content.of_role("lists")):
        return Summary(desk.t("a file cannot be read"), "bad")
    if 0 < count < needed:
        text = desk.t("{systems}, {n} are needed", systems=text, n=needed)
    elif any(each.absent for each in uploaded):
        text = desk.t("{systems}, images are missing", systems=text)
    elif gaps:
        return Summary(desk.t("{systems}, {n} with gaps", systems=text, n=gaps), "warn")
    else:
        return Summary(text if count else desk.t("not yet"))
    return Summary(text, "bad")


def view(setup: Setup) -> Mapping[str, object]:
    material, number = setup.material, number_of(setup.desk.request, "page")
    uploaded, stored = covered(setup), stored_systems(setup)
    sheet, lists = sheet_of(setup, number), setup.draft.content.of_role("lists")
    unused = setup.draft.content.of_role("unused")
    names = [each.name for each in uploaded]
    return {
        "kind": KINDS[setup.config.design.kind],
        "n_sets": n_sets_of(setup.config.design),
        "k": setup.config.design.k,
        "uploaded": uploaded,
        "stored": stored,
        "names": names + [each.name for each in stored if each.is_chosen],
        "sheet": sheet,
        "answered": len(material.answered),
        "next_page": number + 1 if (number + 1) * AT_ONCE < sheet.n_queries else 0,
        "not_used": [*[file for file in lists if file.name in material.errors], *unused],
        **uploading(setup),
        "few": first_few,
    }


def rename(setup: Setup) -> None:
    """Rename a system of an uploaded file."""
    key, wanted = setup.desk.text("field"), setup.desk.text("value").strip()
    name = name_of(setup, key)
    setup.require_seen(name)
    system_name(Place(wanted, setup.desk.t("The name")))
    if wanted in {*setup.material.systems, *(each.name for each in stored_systems(setup))} - {name}:
        raise Refused(setup.desk.t("Another system is called {name}.", name=wanted))
    setup.change(lambda content: named(content, key, name, wanted))


def name_of(setup: Setup, key: str) -> str:
    """The displayed name of a system, by its file and its name there."""
    for name, source in setup.material.sources.items():
        if "/".join(source) == key:
            return name
    raise Refused("this system no longer exists")


def named(content: Content, key: str, name: str, wanted: str) -> Content:
    """With another name of a system, also where systems are chosen by name; "" removes it."""
    content = content.model_copy(update={"names": {**content.names, key: wanted}})
    chosen = content.value("queries.systems", None)
    if not isinstance(chosen, list) or name not in chosen:
        return content
    renamed = [wanted if each == name else each for each in chosen]
    return content.with_value("queries.systems", list(filter(None, renamed)) or None)


def remove_system(setup: Setup) -> Said:
    """Stop using a system's lists; a file without further systems is removed."""
    key = setup.desk.text("key")
    name, file = name_of(setup, key), key.partition("/")[0]
    is_alone = sum(source[0] == file for source in setup.material.sources.values()) == 1

    def without(content: Content) -> Content:
        content = named(content, key, name, "")
        return content.without_file(file) if is_alone else content

    setup.change(without)
    return Said(setup.desk.t("{name} was removed.", name=name), {"act": "undo"})


def choose(setup: Setup) -> None:
    """Use a system of the database, or stop using it."""
    name, stored = setup.desk.text("field"), stored_systems(setup)
    if all(each.name != name for each in stored):
        raise Refused("this system no longer exists")
    is_wanted = setup.desk.given.get("value") is True
    chosen = [each.name for each in stored if (is_wanted if each.name == name else each.is_chosen)]
    if not chosen:
        raise Refused("a study needs at least one system")
    systems = None if len(chosen) == len(stored) else [*setup.material.systems, *chosen]
    setup.change(lambda content: content.with_value("queries.systems", systems))


ACTS = {"rename": rename, "remove-system": remove_system, "choose": choose}
STEP = Step("systems", "Systems", summary, view, ACTS | {"remove": remove, "forget": forget})
