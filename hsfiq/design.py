"""Study design: which two systems each query is judged on, which side, in which form.

Everything is drawn once, from a seeded generator, and stored; nothing is drawn again when a page
is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from random import Random

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from hsfiq.errors import UnreadableInput
from hsfiq.tables import (
    Check,
    Form,
    Pair,
    Query,
    Question,
    RankedList,
    RetrievedImage,
    RetrievedSet,
    Study,
    Triplet,
)

PUBLISHED_IMAGE_PATH = "/-/image_data/{category}/{name}.jpg"
"""How the published HP-FashionIQ file names its images."""


@dataclass(frozen=True, slots=True)
class Design:
    """What is fixed before the first annotator comes; the defaults are the papers'.

    `seed` draws pairs, sides, places and sums. Each query is judged once, by one participant.
    """

    k: int = 5
    questions_per_form: int = 25
    forms_per_participant: int = 2
    ties_allowed: bool = False
    seed: int = 0


def draw_study(
    session: Session,
    name: str,
    design: Design,
    query_ids: Sequence[int],
    *,
    title: str,
    guidelines: str,
    origin: str = "collected",
    status: str = "open",
) -> Study:
    """Draw a whole study over these queries and store it.

    Forms hold one category each; no participant's forms hold a triplet twice, because each
    triplet's queries are dealt to different forms of which a participant takes neighbours.

    Args:
        query_ids: database keys of the queries; each needs ranked lists of two systems or more.

    Raises:
        UnreadableInput: a query with fewer than two systems' lists of at least k images, or too
            few queries for one participant.
    """
    rng = Random(f"study:{design.seed}")  # noqa: S311 (a seeded draw, not a secret)
    lists = ranked_lists(session, query_ids, design.k)
    study = Study(
        name=name,
        title=title,
        guidelines=guidelines,
        status=status,
        origin=origin,
        k=design.k,
        ties_allowed=design.ties_allowed,
        forms_per_participant=design.forms_per_participant,
        design=asdict(design),
        image_path=PUBLISHED_IMAGE_PATH,
        source_sha256=None,
    )
    session.add(study)
    session.flush()
    pairs = store_pairs(session, study, draw_pairs(rng, lists), lists)
    deal_forms(session, study, design, pairs, rng)
    return study


def ranked_lists(
    session: Session, query_ids: Sequence[int], k: int
) -> dict[int, dict[int, list[int]]]:
    """For each query the top-k image keys of each system, {query: {system: [image]}}."""
    wanted = set(query_ids)
    found: dict[int, dict[int, list[int]]] = {query: {} for query in query_ids}
    rows = session.execute(
        select(RankedList.query_id, RankedList.system_id, RankedList.image_ids).order_by(
            RankedList.query_id, RankedList.system_id
        )
    )
    for query_id, system_id, image_ids in rows:
        if query_id in wanted and len(image_ids) >= k:
            found[query_id][system_id] = image_ids[:k]
    poor = [query for query, systems in found.items() if len(systems) < 2]
    if poor:
        raise UnreadableInput(
            "study",
            f"{len(poor)} queries have lists of at least {k} images from fewer than two systems",
            "import the runs of two systems or more with `hsfiq import runs`",
        )
    return found


def draw_pairs(
    rng: Random, lists: Mapping[int, Mapping[int, list[int]]]
) -> list[tuple[int, int, int]]:
    """Give each query two different systems, (query, first, second), balanced over the pairs.

    Among the pairs of systems that a query has, the one drawn least so far is taken, and chance
    decides between equals.
    """
    drawn: dict[tuple[int, int], int] = defaultdict(int)
    pairs = []
    for query, systems in lists.items():
        choices = list(combinations(sorted(systems), 2))
        fewest = min(drawn[choice] for choice in choices)
        choice = rng.choice([choice for choice in choices if drawn[choice] == fewest])
        drawn[choice] += 1
        pairs.append((query, *choice))
    return pairs


def store_pairs(
    session: Session,
    study: Study,
    pairs: Sequence[tuple[int, int, int]],
    lists: Mapping[int, Mapping[int, list[int]]],
) -> list[tuple[int, int]]:
    """Store the two retrieved sets of each pair and the pair; return (pair, query) keys."""
    if not pairs:
        return []
    sides = [(query, system) for query, *systems in pairs for system in systems]
    set_ids = session.scalars(
        insert(RetrievedSet).returning(RetrievedSet.id, sort_by_parameter_order=True),
        [{"query_id": query, "system_id": system} for query, system in sides],
    ).all()
    session.execute(
        insert(RetrievedImage),
        [
            {"set_id": set_id, "rank": rank, "image_id": image}
            for set_id, (query, system) in zip(set_ids, sides, strict=True)
            for rank, image in enumerate(lists[query][system])
        ],
    )
    pair_ids = session.scalars(
        insert(Pair).returning(Pair.id, sort_by_parameter_order=True),
        [
            {"study_id": study.id, "query_id": query, "first_id": first, "second_id": second}
            for (query, _, _), first, second in zip(pairs, set_ids[::2], set_ids[1::2], strict=True)
        ],
    ).all()
    return [(pair_id, query) for pair_id, (query, _, _) in zip(pair_ids, pairs, strict=True)]


def deal_forms(
    session: Session,
    study: Study,
    design: Design,
    pairs: Sequence[tuple[int, int]],
    rng: Random,
) -> None:
    """Deal the pairs into forms, each with its side drawn, and draw the sum asked before a form."""
    facts = {
        query: (triplet, category)
        for query, triplet, category in session.execute(
            select(Query.id, Query.triplet_id, Triplet.category).join(Query.triplet)
        )
    }
    by_category: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pair_id, query in pairs:
        triplet, category = facts[query]
        by_category[category].append((pair_id, triplet))
    number = 0
    for category in sorted(by_category):
        for batch in batches(by_category[category], design, rng):
            form = Form(study_id=study.id, number=number, category=category)
            number += 1
            session.add(form)
            session.flush()
            # Balanced within the form, in an order nobody can guess; of an odd number chance
            # decides which side has one more.
            odd_one = rng.randrange(2)
            sides = [index % 2 == odd_one for index in range(len(batch))]
            rng.shuffle(sides)
            session.execute(
                insert(Question),
                [
                    {"form_id": form.id, "place": place, "pair_id": pair_id, "swapped": swapped}
                    for place, (pair_id, swapped) in enumerate(zip(batch, sides, strict=True))
                ],
            )
            left, right = rng.randint(3, 9), rng.randint(3, 9)
            session.add(
                Check(
                    form_id=form.id,
                    place=0,
                    kind="arithmetic",
                    prompt=f"{left} + {right}",
                    expected=str(left + right),
                )
            )
    if number == 0:
        wanted = design.questions_per_form * design.forms_per_participant
        raise UnreadableInput(
            "study",
            f"no category has the {wanted} queries that one participant answers",
            "use smaller forms or more queries",
        )
    session.flush()


def batches(pairs: Sequence[tuple[int, int]], design: Design, rng: Random) -> list[list[int]]:
    """Split (pair, triplet) keys of one category into forms, filled for whole participants.

    A participant takes `forms_per_participant` forms that follow each other, so no such group
    may hold a triplet twice; what fills no whole group is left out.
    """
    size = design.questions_per_form * design.forms_per_participant
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    groups: list[tuple[list[int], set[int]]] = []
    first_open = 0
    for pair_id, triplet in shuffled:
        for members, triplets in groups[first_open:]:
            if len(members) < size and triplet not in triplets:
                break
        else:
            members, triplets = [], set()
            groups.append((members, triplets))
        members.append(pair_id)
        triplets.add(triplet)
        while first_open < len(groups) and len(groups[first_open][0]) == size:
            first_open += 1
    return [
        members[start : start + design.questions_per_form]
        for members, _ in groups
        if len(members) == size
        for start in range(0, size, design.questions_per_form)
    ]
