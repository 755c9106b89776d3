"""The data of a training run, and texts as the encoders read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hsfiq.drawn import Garment, garment_of
from hsfiq.drawn.garments import CatalogueTooSmall
from hsfiq.drawn.triplets import target_split
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import usual_folder
from hsfiq.model.data import (
    Example,
    Incomplete,
    Part,
    TrainingData,
    available_part,
    cirr,
    draw_dataset,
    drawn,
    fashioniq,
    mining_text,
    missing_lines,
    missing_text,
    training_text,
)
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.recipes import CaptionRule

DRESSES: dict[str, tuple[str, ...]] = {
    "train": ("d1", "d2", "d3", "d4", "d5"),
    "val": ("e1", "e2", "e3"),
}
SHIRTS: dict[str, tuple[str, ...]] = {"train": ("s1", "s2", "s3"), "val": ("s3", "t1", "t2")}
TRIPLETS = {
    ("dress", "train"): [("d1", "d2"), ("d2", "d3"), ("d1", "d4")],
    ("dress", "val"): [("e1", "e2"), ("e2", "e3")],
    ("shirt", "train"): [("s1", "s2"), ("s1", "s3")],
    ("shirt", "val"): [("t1", "t2")],
}
ALL = {name for split in ("train", "val") for name in (*DRESSES[split], *SHIRTS[split])}


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_pictures(folder: Path, names: set[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(sorted(names)):
        Image.new("RGB", (3, 4), (place, 0, 0)).save(folder / f"{name}.png")
    return folder


def entry(reference: str, target: str) -> dict[str, Any]:
    return {"candidate": reference, "target": target, "captions": ["is red", "has dots"]}


@pytest.fixture
def fashioniq_folder(tmp_path: Path) -> Path:
    """A FashionIQ folder of two categories without images; its test files have no targets."""
    folder = tmp_path / "fashioniq"
    for category, images in (("dress", DRESSES), ("shirt", SHIRTS)):
        for split in ("train", "val"):
            entries = [entry(*pair) for pair in TRIPLETS[category, split]]
            write_json(folder / "captions" / f"cap.{category}.{split}.json", entries)
            write_json(folder / "image_splits" / f"split.{category}.{split}.json", images[split])
        test_entries = [{"candidate": "x", "captions": ["a", "b"]}]
        write_json(folder / "captions" / f"cap.{category}.test.json", test_entries)
        write_json(folder / "image_splits" / f"split.{category}.test.json", ["x"])
    return folder


@pytest.fixture
def cirr_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "cirr"
    images = {"train": ["a", "b", "c", "d"], "val": ["v", "w", "x"]}
    pairs = {"train": [("a", "b"), ("b", "c")], "val": [("v", "w")]}
    for split, place in (("train", 0), ("val", 10)):
        entries = [
            {"pairid": place + i, "reference": r, "target_hard": t, "caption": "show two dogs"}
            for i, (r, t) in enumerate(pairs[split])
        ]
        write_json(folder / "captions" / f"cap.rc2.{split}.json", entries)
        paths = {name: f"./{split}/{name}.png" for name in images[split]}
        write_json(folder / "image_splits" / f"split.rc2.{split}.json", paths)
        write_pictures(folder / "img_raw" / split, set(images[split]))
    return folder


def test_fashioniq_with_all_images(fashioniq_folder: Path) -> None:
    write_pictures(fashioniq_folder / "images", ALL)
    data = fashioniq(fashioniq_folder, None, "targets")
    assert data.name == "fashioniq"
    assert data.train[0] == Example("dress.train.0", "d1", "d2", ("is red", "has dots"), "dress")
    assert [example.triplet_id for example in data.train] == [
        *("dress.train.0", "dress.train.1", "dress.train.2"),
        *("shirt.train.0", "shirt.train.1"),
    ]
    assert [example.triplet_id for example in data.val] == [
        "dress.val.0",
        "dress.val.1",
        "shirt.val.0",
    ]
    assert data.pools == {"dress": ("d2", "d3", "d4"), "shirt": ("s2", "s3")}
    assert data.corpora == {"dress": ("e1", "e2", "e3"), "shirt": ("s3", "t1", "t2")}
    assert (data.missing, data.dropped, data.incomplete) == ((), (), ())
    assert missing_lines(data) == ()
    assert data.images["d1"] == fashioniq_folder / "images" / "d1.png"
    # d5 is in the split file alone: with the targets as the pool nobody needs it.
    assert set(data.images) == ALL - {"d5"}


def test_the_complete_corpus_as_the_pool(fashioniq_folder: Path) -> None:
    write_pictures(fashioniq_folder / "images", ALL)
    data = fashioniq(fashioniq_folder, None, "corpus")
    assert data.pools == {"dress": DRESSES["train"], "shirt": SHIRTS["train"]}
    assert set(data.images) == ALL


def test_an_image_named_twice_is_one_candidate(fashioniq_folder: Path) -> None:
    write_pictures(fashioniq_folder / "images", ALL)
    entries = [entry("d1", "d2"), entry("d3", "d2"), entry("d2", "d3")]
    write_json(fashioniq_folder / "captions" / "cap.dress.train.json", entries)
    split = ["e1", "e2", "e1", "e3"]
    write_json(fashioniq_folder / "image_splits" / "split.dress.val.json", split)
    data = fashioniq(fashioniq_folder, None, "targets")
    assert data.pools["dress"] == ("d2", "d3")
    assert data.corpora["dress"] == ("e1", "e2", "e3")


def test_missing_images_are_named(fashioniq_folder: Path, tmp_path: Path) -> None:
    images = write_pictures(tmp_path / "elsewhere" / "deep", ALL - {"d3", "d5", "e1"})
    data = fashioniq(fashioniq_folder, images.parent, "corpus")
    assert data.missing == ("d3", "d5", "e1")
    assert data.dropped == ("dress.train.1", "dress.val.0")
    assert data.pools["dress"] == ("d1", "d2", "d4")
    assert data.corpora["dress"] == ("e2", "e3")
    assert data.incomplete == (
        Incomplete("pool", "dress", 3, 5),
        Incomplete("corpus", "dress", 2, 3),
    )
    first, *other_lines = missing_lines(data)
    assert first == (
        "3 of 13 images are missing; 2 of 8 triplets are skipped for this reason "
        "(missing_images.txt lists both)"
    )
    assert other_lines == [
        "pool dress: 3 of 5 images",
        "corpus dress: 2 of 3 images; recall on it is not comparable with published figures",
    ]
    assert missing_text(data).splitlines() == [
        "# images without a file: 3",
        *("d3", "d5", "e1"),
        "# triplets skipped for them: 2",
        *("dress.train.1", "dress.val.0"),
    ]


def test_a_category_without_images_is_excluded(fashioniq_folder: Path) -> None:
    write_pictures(fashioniq_folder / "images", {*SHIRTS["train"], *SHIRTS["val"]})
    data = fashioniq(fashioniq_folder, None, "targets")
    assert set(data.pools) == set(data.corpora) == {"shirt"}
    assert "pool dress: 0 of 3 images" in missing_lines(data)


def test_no_images_at_all(fashioniq_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="has no folder of images; name it with"):
        fashioniq(fashioniq_folder, None, "targets")
    with pytest.raises(UnreadableInput, match="nowhere: there is no such folder"):
        fashioniq(fashioniq_folder, tmp_path / "nowhere", "targets")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableInput, match=r"no triplet of split 'train' .*\(0 of 12 images"):
        fashioniq(fashioniq_folder, tmp_path / "empty", "targets")
    write_pictures(fashioniq_folder / "images", {*DRESSES["train"], *SHIRTS["train"]})
    with pytest.raises(UnreadableInput, match="no triplet of split 'val' has both of its images"):
        fashioniq(fashioniq_folder, None, "targets")


@pytest.mark.parametrize(
    ("absent", "message"),
    [
        (["dress.train", "shirt.train"], "no captions of split 'train'; there are test, val"),
        (["dress.val", "shirt.val"], "no captions of split 'val'; there are test, train"),
        (["shirt.train"], "has shirt captions for one split, but none for 'train'; add captions"),
    ],
)
def test_a_missing_split(fashioniq_folder: Path, absent: list[str], message: str) -> None:
    write_pictures(fashioniq_folder / "images", ALL)
    for name in absent:
        (fashioniq_folder / "captions" / f"cap.{name}.json").unlink()
    with pytest.raises(UnreadableInput, match=message):
        fashioniq(fashioniq_folder, None, "targets")


def test_a_triplet_without_a_target(fashioniq_folder: Path) -> None:
    write_pictures(fashioniq_folder / "images", ALL)
    entries = [entry("d1", "d2"), {"candidate": "d1", "captions": ["a", "b"]}]
    write_json(fashioniq_folder / "captions" / "cap.dress.train.json", entries)
    message = r"cap\.dress\.train\.json: triplet dress\.train\.1 has no target"
    with pytest.raises(UnreadableInput, match=message):
        fashioniq(fashioniq_folder, None, "targets")


@pytest.mark.shared
def test_the_real_folders_have_no_training_split(shared: Path, tmp_path: Path) -> None:
    message = "no captions of split 'train'; there are"
    with pytest.raises(UnreadableInput, match=f"fashioniq: {message} val"):
        fashioniq(shared / "data" / "fashioniq", tmp_path, "targets")
    with pytest.raises(UnreadableInput, match=f"cirr: {message} test1, val"):
        cirr(shared / "data" / "cirr", tmp_path, "corpus")


def test_cirr(cirr_folder: Path) -> None:
    data = cirr(cirr_folder, None, "corpus")
    assert data.train == (
        Example("0", "a", "b", ("show two dogs",), "cirr"),
        Example("1", "b", "c", ("show two dogs",), "cirr"),
    )
    assert [example.triplet_id for example in data.val] == ["10"]
    assert data.pools == {"cirr": ("a", "b", "c", "d")}
    assert data.corpora == {"cirr": ("v", "w", "x")}
    assert data.images["w"] == cirr_folder / "img_raw" / "val" / "w.png"
    assert cirr(cirr_folder, None, "targets").pools == {"cirr": ("b", "c")}


def test_images_of_cirr_beside_its_captions(cirr_folder: Path, tmp_path: Path) -> None:
    """`train/` and `dev/` beside `cirr/`, as CLIP4Cir has them; either folder may be named."""
    pictures = cirr_folder / "img_raw"
    (pictures / "train").rename(tmp_path / "train")
    (pictures / "val").rename(tmp_path / "dev")
    pictures.rmdir()
    for folder in (tmp_path, cirr_folder):
        assert cirr(folder, None, "corpus").images["w"] == tmp_path / "dev" / "w.png"
    (cirr_folder / "captions").rename(cirr_folder / "other")
    assert usual_folder(tmp_path) is None


@pytest.fixture(scope="module")
def drawn_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drawn") / "images"


@pytest.fixture(scope="module")
def drawn_data(drawn_folder: Path) -> TrainingData:
    return drawn(drawn_folder, 3, 20, 30, "corpus")


def garments_of(names: tuple[str, ...]) -> list[Garment]:
    return [garment_of(name) for name in names]


def test_the_drawn_catalogue(drawn_data: TrainingData) -> None:
    assert (len(drawn_data.train), len(drawn_data.val)) == (15, 9)
    assert set(drawn_data.pools) == set(drawn_data.corpora) == {"dress", "shirt", "toptee"}
    assert drawn_data.missing == ()
    assert all(path.is_file() for path in drawn_data.images.values())
    for examples in (drawn_data.train, drawn_data.val):
        assert all(garment_of(example.target).category == example.pool for example in examples)
        assert all(len(example.captions) == 2 for example in examples)


def test_held_out_garments_are_not_candidates(drawn_data: TrainingData) -> None:
    for name in drawn_data.pools:
        pool, corpus = (garments_of(each[name]) for each in (drawn_data.pools, drawn_data.corpora))
        assert set(map(target_split, pool)) == {"train"}
        assert set(map(target_split, corpus)) == {"train", "val"}
    assert not any(garment.held_out for garment in garments_of(tuple(drawn_data.images)))
    _, triplets = draw_dataset(3, 20, 30)
    targets = {triplet.target.image_id for triplet in triplets if triplet.split == "test"}
    assert len(targets) == 6
    assert not targets & set(drawn_data.images)


def test_the_same_seed_draws_the_same_data(drawn_data: TrainingData, drawn_folder: Path) -> None:
    dates = {path: path.stat().st_mtime_ns for path in drawn_folder.iterdir()}
    assert drawn(drawn_folder, 3, 20, 30, "corpus") == drawn_data
    assert {path: path.stat().st_mtime_ns for path in drawn_folder.iterdir()} == dates
    assert [path.name for path in drawn_folder.parent.iterdir()] == ["images"]
    assert draw_dataset(4, 20, 30) != draw_dataset(3, 20, 30)


def test_drawn_targets_as_the_pool(drawn_data: TrainingData, drawn_folder: Path) -> None:
    data = drawn(drawn_folder, 3, 20, 30, "targets")
    for name, pool in data.pools.items():
        targets = dict.fromkeys(example.target for example in data.train if example.pool == name)
        assert pool == tuple(targets)


def test_impossible_catalogues_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueTooSmall, match="draw a larger catalogue"):
        drawn(tmp_path / "images", 3, 5, 1000, "corpus")
    assert not (tmp_path / "images").exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="file: cannot be written"):
        drawn(tmp_path / "file", 3, 20, 30, "corpus")


def sound() -> TrainingData:
    example = Example("0", "a", "b", ("red",), "p")
    return TrainingData("it", (example,), (example,), {"p": ("a", "b")}, {"p": ("a", "b")}, {})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pools": {"p": ("a", "c")}}, "it: triplet 0: its target 'b' is not in the pool 'p'"),
        ({"pools": {"q": ("a", "b")}}, "it: triplet 0: its target 'b' is not in the pool 'p'"),
        ({"corpora": {"p": ("a", "c")}}, "it: triplet 0: its target 'b' is not in the corpus 'p'"),
        ({"corpora": {"p": ("b",)}}, "it: corpus 'p': has 1 images, but a target needs"),
        ({"pools": {"p": ()}}, "it: pool 'p': has 0 images,"),
    ],
)
def test_invalid_records_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        replace(sound(), **changed)


NAMES = st.sampled_from("abcdef")


@given(st.lists(st.tuples(NAMES, NAMES), max_size=6), st.lists(NAMES, unique=True), st.sets(NAMES))
def test_coverage(pairs: list[tuple[str, str]], pool: list[str], available: set[str]) -> None:
    examples = tuple(Example(str(i), r, t, ("x",), "p") for i, (r, t) in enumerate(pairs))
    remaining = available_part(Part("p", examples, (), tuple(pool), ()), available)
    triplets = [str(i) for i, pair in enumerate(pairs) if available.issuperset(pair)]
    assert [example.triplet_id for example in remaining.train] == triplets
    assert list(remaining.pool) == [name for name in pool if name in available]


PAIR = ("is Red, with DOTS.", "Has no collar? ")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Is  shorter.   And  RED!", "is shorter and red"),
        ('a "v" neck (deep); #1: ~x*y', "a v neck deep 1 x y"),
        ("3/4 sleeves, isn't it?", "3/4 sleeves, isn't it?"),
        ("says nopedotmark isquestionmark andmark", "says nope is? &"),
        ("a\tb\n", "a\tb"),
        ("a\n\nb", "a b"),
        ("...", ""),
        ("", ""),
        (" ".join(map(str, range(60))), " ".join(map(str, range(50)))),
    ],
)
def test_normalising(text: str, clean: str) -> None:
    assert normalise(text) == clean


def literal_normalise(text: str) -> str:
    """LAVIS' text processor, one character and one word at a time."""
    for escape, character in (("dot", "."), ("question", "?"), ("and", "&"), ("star", "*")):
        text = text.replace(f"{escape}mark", character)
    spaced = "".join(" " if character in '.!"()*#:;~' else character for character in text.lower())
    short = ""
    place = 0
    while place < len(spaced):
        end = place
        while end < len(spaced) and spaced[end].isspace():
            end += 1
        if end - place >= 2:
            short += " "
            place = end
        else:
            short += spaced[place]
            place += 1
    return " ".join(short.rstrip("\n").strip(" ").split(" ")[:50])


@given(
    st.lists(
        st.sampled_from(["dotmark", "starmark", " ", "  ", "\n", "\t", ".", '"', "~", "Red", "?"])
    ).map("".join)
)
def test_normalising_equals_the_reference(text: str) -> None:
    assert normalise(text) == literal_normalise(text)


def test_a_single_caption_is_unchanged() -> None:
    assert mining_text(["Show two dogs."]) == "Show two dogs."
    assert training_text(["Show two dogs."], "four-way", 0.6) == "Show two dogs."


@pytest.mark.parametrize(
    ("u", "text"),
    [
        (0.0, "Is red, with dots and Has no collar"),
        (0.2499, "Is red, with dots and Has no collar"),
        (0.25, "Has no collar and is Red, with DOTS"),
        (0.5, "Is red, with dots"),
        (0.75, "Has no collar"),
        (0.9999999999999999, "Has no collar"),
    ],
)
def test_four_ways(u: float, text: str) -> None:
    assert training_text(PAIR, "four-way", u) == text
    assert training_text(PAIR, "joined", u) == mining_text(PAIR)


@pytest.mark.parametrize("rule", ["joined", "four-way"])
@pytest.mark.parametrize("captions", [(), ("a", "b", "c")])
def test_other_numbers_of_captions(rule: CaptionRule, captions: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"one or two captions, not {len(captions)}"):
        training_text(captions, rule, 0.3)


@pytest.mark.parametrize("u", [-0.1, 1.0, float("nan")])
def test_numbers_outside_0_to_1_are_refused(u: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\)"):
        training_text(PAIR, "joined", u)
