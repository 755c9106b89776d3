"""What `hsfiq sessions play` makes of a benchmark's parts and of a script."""

from __future__ import annotations

import pytest

from hsfiq.cli.sessions import SourceOptions, placed, queries_of, scripted
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, Query
from hsfiq.sessions.play import Query as PlayedQuery
from hsfiq.sessions.record import Round, Session


def benchmark(*, keeps_reference: bool) -> Benchmark:
    """Two parts: `d` has a query with one target, `s` one with several truths, as CIRCO."""
    dress = Query(query_id="d.0", reference="d1", text="is red", target="d2")
    shirt = Query(query_id="s.0", reference="s1", text="two", target="s2", truths=("s2", "s3"))
    parts = (
        Part("d", (dress, dress), Corpus("split", ("d1", "d2", "both"))),
        Part("s", (shirt,), Corpus("split", ("s1", "s2", "s3", "both"))),
    )
    return Benchmark("fashioniq", "val", parts, keeps_reference=keeps_reference)


def session(*images: str, target: str) -> Session:
    rounds = tuple(
        Round(round=number, reference=image, text="x") for number, image in enumerate(images, 1)
    )
    return Session(session_id="s", query_id="q", rounds=rounds, targets=(target,))


def test_queries_keep_their_targets_and_part() -> None:
    ((dress,), (shirt,)) = queries_of(benchmark(keeps_reference=True), SourceOptions(limit=1))
    assert (dress.targets, shirt.targets) == (("d2",), ("s2", "s3"))
    assert (dress.category, dress.excluded) == ("d", ())


def test_references_can_be_left_out_and_cirrs_always_are() -> None:
    for keeps, options in ((False, SourceOptions()), (True, SourceOptions(drop_reference=True))):
        (dress, _), _ = queries_of(benchmark(keeps_reference=keeps), options)
        assert dress.excluded == ("d1",)


def test_a_script_is_played_where_its_images_are() -> None:
    script = [session("both", "s1", target="s3"), session("both", target="d2")]
    dresses, shirts = scripted(benchmark(keeps_reference=True), script)
    assert [each.targets for each in dresses] == [("d2",)]
    assert [each.targets for each in shirts] == [("s3",)]
    with pytest.raises(UnreadableInput, match=r"session s: no corpus of --data holds"):
        scripted(benchmark(keeps_reference=True), [session("d1", target="s2")])


def test_released_queries_are_played_where_their_images_are() -> None:
    shirt = PlayedQuery(query_id="q", reference="both", text="two", targets=("s3",))
    dresses, shirts = placed(benchmark(keeps_reference=True), [shirt])
    assert (dresses, [each.category for each in shirts]) == ((), ["s"])
    elsewhere = PlayedQuery(query_id="q", reference="d1", text="two", targets=("s3",))
    with pytest.raises(UnreadableInput, match=r"query q: no corpus of --data holds"):
        placed(benchmark(keeps_reference=True), [elsewhere])
