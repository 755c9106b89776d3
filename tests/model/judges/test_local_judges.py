"""Judges that run on this machine, with small random models, as docs/reference/judges.md says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.drawn import catalogue, garment_of, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual import load_zero_shot
from hsfiq.model.encoders.towers import TransformersTowers
from hsfiq.model.image_tokens import open_image
from hsfiq.model.judges.judge import NAMES, Question, read_judge_prompt
from hsfiq.model.judges.yes_probability import FeatureMemo, YesProbability
from hsfiq.releases.folder import read_sets
from tests.model.encoders.test_zero_shot import clip, saved
from tests.model.judges.small_models import PLACES, llava, paligemma, saved_vlm
from tests.model.release_scores.scored_release import about, set_scores
from tests.model.scorer.helpers import CPU, hsfiq

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("reference/judges.md", "contributing/plugins.md")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    write_images(catalogue(generator(0, "judged"), 5)[:4], folder)
    return sorted(folder.iterdir())


def test_clipscore_is_the_published_formula(release: Path, tmp_path: Path) -> None:
    model = saved(clip, tmp_path / "clip")
    result = hsfiq("score", release, "--judge", f"clipscore:{model}")
    assert result.code == 0, result.err
    folder = release.with_name("hp.scores")
    by_image = {
        (row["set_id"], row["image_id"]): row["score"]
        for row in pq.read_table(folder / "clipscore.images.parquet").to_pylist()
    }
    sets = read_sets(release)
    first = sets[0]
    (tmp_path / "one").mkdir()
    write_images([garment_of(first.images[0])], tmp_path / "one")
    towers = load_zero_shot("hf", str(model)).towers
    assert isinstance(towers, TransformersTowers)
    with open_image(next((tmp_path / "one").iterdir())) as image, torch.no_grad():
        vector = towers.image_vectors(towers.preprocessing(image).unsqueeze(0))
        text = towers.text_vectors([f"A photo depicts {first.text}"])
    expected = 2.5 * max(0.0, float(F.cosine_similarity(vector, text)))
    assert by_image[first.set_id, first.images[0]] == pytest.approx(expected, abs=1e-6)
    scores = set_scores(folder, "clipscore")
    assert scores[first.set_id] == pytest.approx(
        fmean(by_image[first.set_id, image] for image in first.images)
    )
    assert min(by_image.values()) >= 0
    assert about(folder, "clipscore")["judge"]["reads_reference"] is False
    figures = hsfiq("analyze", release, "--metric", "clipscore", "--resamples", "20", "--json")
    assert figures.result["metrics"]["clipscore"]["spearman"]["n"] == len(sets)


def test_a_vision_language_model_scores_a_release(release: Path, tmp_path: Path) -> None:
    model = saved_vlm(llava, tmp_path / "llava")
    result = hsfiq("score", release, "--judge", f"vqascore:{model}", "--name", "yes")
    assert result.code == 0, result.err
    scores = set_scores(release.with_name("hp.scores"), "yes")
    assert len(scores) == len(read_sets(release))
    assert all(0 < score < 1 for score in scores.values())
    assert about(release.with_name("hp.scores"), "yes")["judge"]["prompt"]["name"] == "change"
    again = hsfiq("score", release, "--judge", f"vqascore:{model}", "--name", "yes", "--json")
    assert again.result["costs_of_this_run"] == {"answers": 0}
    figures = hsfiq("analyze", release, "--metric", "yes", "--resamples", "20", "--json").result
    assert figures["metrics"]["yes"]["pairs"]["missing"] == 0


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("make", [llava, paligemma])
def test_each_image_is_encoded_once_and_changes_nothing(
    make: Callable[[], tuple[Any, Any]], pictures: list[Path], tmp_path: Path
) -> None:
    folder = saved_vlm(make, tmp_path / "model")
    judge = YesProbability(folder, read_judge_prompt("change"), CPU)
    reference, *images = pictures
    texts = ("is red", "is red and blue", "is blue")
    questions = [Question(reference, text, ((image,),)) for text in texts for image in images]
    encoded: list[int] = []
    encode = judge._model.get_image_features

    def counting(pixel_values: torch.Tensor, **options: Any) -> Any:
        encoded.append(len(pixel_values))
        return encode(pixel_values=pixel_values, **options)

    judge._model.get_image_features = counting
    batches = [questions[start : start + 4] for start in range(0, len(questions), 4)]
    answers = [answer.value for batch in batches for answer in judge.answer(batch)]
    assert sum(encoded) == len(pictures)
    judge._takes_features = False
    alone = [judge.answer([question])[0] for question in questions]
    assert answers == pytest.approx([answer.value for answer in alone], abs=1e-6)
    assert len(set(answers)) > len(images)
    single = judge._text(questions[0], 2)
    with open_image(reference) as first, open_image(images[0]) as second:
        inputs = judge._processor(
            text=[single], images=[[first.copy(), second.copy()]], return_tensors="pt"
        )
    with torch.no_grad():
        spread = judge._model(**inputs).logits[0, -1].softmax(0)
    yes = spread[[PLACES["Yes"], PLACES["yes"]]].sum()
    assert alone[0].value == pytest.approx(float(yes), abs=1e-6)


def test_features_used_longest_ago_are_dropped() -> None:
    memo = FeatureMemo(most_bytes=8)
    for name in "ab":
        memo.put(Path(name), torch.zeros(1))
    memo.get(Path("a"))
    memo.put(Path("c"), torch.zeros(1))
    memo.shrink()
    assert [Path(name) in memo for name in "abc"] == [True, False, True]


def test_the_judge_of_the_docs_is_found_and_scores(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join((DOCS / page).read_text() for page in PAGES)
    prompt, *_, module, settings = re.findall(r"```(?:python|toml)\n(.*?)```", text, re.DOTALL)
    (tmp_path / "own.toml").write_text(prompt)
    assert read_judge_prompt(str(tmp_path / "own.toml")).highest == 5
    (tmp_path / "their_judge.py").write_text(module)
    added = tmp_path / "their_judge-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: their-judge\nVersion: 1.0\n")
    entry = settings.splitlines()[-1].replace('"', "")
    (added / "entry_points.txt").write_text(f"[hsfiq.judges]\n{entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = hsfiq("score", release, "--judge", "brightness:0.01")
    assert result.code == 0, result.err
    assert len(set_scores(release.with_name("hp.scores"), "brightness")) == len(read_sets(release))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("asks = 1", "asks is 1; write a text"),
        ('question = "{text}"', "lacks the key asks; write one of images, sets, pairs"),
        ('asks = "pairs"\nquestion = "{text}"\nfirst = "A"\nsecond = "B"', "has no tie"),
        ('asks = "images"\nquestion = "Is it?"', r"question has no \{text\}"),
        ('asks = "sets"\nquestion = "{text}"\nlowest = 5\nhighest = 1', "must be below"),
        ('asks = "images"\nquestion = "{text}"\nx = 1', "x is not a key of a prompt"),
        ("asks", "broken TOML"),
    ],
)
def test_wrong_prompts_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "own.toml").write_text(content)
    with pytest.raises(UnreadableInput, match=message):
        read_judge_prompt(str(tmp_path / "own.toml"))


def test_answers_are_read_or_not() -> None:
    assert len({read_judge_prompt(name).sha256 for name in NAMES}) == len(NAMES)
    pairs, sets = read_judge_prompt("preference"), read_judge_prompt("likert")
    written = ("First.", "I prefer the second", "equal", "first or second", "neither", "")
    assert [pairs.value_of(each) for each in written] == [1.0, 0.0, 0.5, None, None, None]
    written = ("4", "Rating: 4.", "3.5", "0", "6", "4/5", "-3", "3 to 4", "none")
    expected = [4, 4, 3.5, None, None, None, None, None, None]
    assert [sets.value_of(each) for each in written] == expected
