"""A retraining from end to end: release, images, tokens, training, report, checkpoint.

The checkpoint is written last: a run that is killed before leaves none, and begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hsfiq.atomic_files import write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import files as checkpoints
from hsfiq.model.checkpoints.files import ANSWER_MODEL, LAST, Checkpoint, to_json
from hsfiq.model.checkpoints.lineage import EARLIER_RELEASES, trained_on
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.preference.before_after import held_out, retrieval, view
from hsfiq.model.preference.card import card, notes
from hsfiq.model.preference.data import Answers, Question, judgements, read_answers
from hsfiq.model.preference.fit import Retrained, Retraining
from hsfiq.model.preference.material import Where, gather
from hsfiq.model.preference.reliability import contradictions_dropped, even, reliabilities
from hsfiq.model.preference.settings import Settings
from hsfiq.model.runtime.distributed import World
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.scorer.scorer import trained_parameters
from hsfiq.model.scoring.run import arithmetic
from hsfiq.model.training.callbacks import Watcher
from hsfiq.model.training.run import ABOUT, content_sha256, jsonable

REPORT, CARD = "report.json", "MODEL_CARD.md"


def retrain(
    where: Where,
    settings: Settings,
    data: TrainingData | None,
    device: torch.device,
    watcher: Watcher,
) -> Checkpoint:
    """Retrain a scorer; nothing is done where the folder holds the same retraining.

    Args:
        where: the folders.
        settings: every number.
        data: triplets to mix in where the settings say so, and to measure recall on; or None.
        device: computes.
        watcher: is told of the images encoded.

    Returns:
        The checkpoint; `report.json` and the other files lie beside it.

    Raises:
        UnreadableInput: no release, no checkpoint, no images, a split that leaks, or a folder that
            holds something else.
        NothingToDo: no question is left to train on.
        Diverged: a loss or a weight is no number.
    """
    if settings.mix and data is None:
        raise UnreadableInput("mix", "mixes triplets in, and none are named", "give --data")
    answers = read_answers(where.release)
    loaded = load_scorer(where.init, where.weights, device)
    said = provenance(answers, loaded, settings, data)
    done = earlier(where.out, said)
    if done is not None:
        return done
    material = gather(where, answers, loaded, data, device, watcher)
    asked = judgements(material.train, weights(material.train, where.release, settings))
    dtype = arithmetic(loaded.recipe, device)
    world = World(device)
    retraining = Retraining(
        loaded.scorer,
        loaded.recipe,
        settings,
        material.train,
        asked,
        material.tokens,
        world,
        dtype,
        material.triplets,
    )
    before = view(material, loaded, retraining.inference, dtype)
    retrained = retraining.train()
    after = view(material, loaded, retraining.inference, dtype)
    report = {
        "simulated": bool(answers.about.get("simulated", False)),
        "notes": notes(said),
        "n_train": len(material.train),
        "n_left_out": len(material.left_out),
        "left_out": material.left_out,
        "epochs": retrained.epochs,
        **held_out(where.release, answers, material, before, after, retrained, settings.seed),
        **retrieval(loaded.recipe, before, after, settings.seed),
    }
    return write(where.out, said, loaded, retrained, report)


def provenance(
    answers: Answers, loaded: Loaded, settings: Settings, data: TrainingData | None
) -> dict[str, Any]:
    """What makes this retraining the one that it is, as its checkpoint says it.

    Recipe, data, encoder and preprocessing stay those of the scorer that it starts from.
    """
    kept = ("recipe", "data", "encoder", "preprocessing")
    triplets = None
    if data is not None:
        triplets = {"name": data.name, "n_train": len(data.train), "sha256": content_sha256(data)}
    return jsonable(
        {
            **{key: loaded.checkpoint.about.get(key) for key in kept},
            "init_sha256": loaded.checkpoint.sha256,
            "preference": settings.to_json(),
            EARLIER_RELEASES: trained_on(loaded.checkpoint),
            "release": dict(answers.about),
            "triplets": triplets,
        }
    )


def earlier(out: Path, said: Mapping[str, Any]) -> Checkpoint | None:
    """The same retraining's checkpoint where the folder holds it; None where it holds none.

    Raises:
        UnreadableInput: the folder holds another run.
    """
    if not any((out / f"{name}.json").exists() for name in (checkpoints.BEST, LAST)):
        return None
    checkpoint = checkpoints.read(out)
    # A checkpoint of an earlier version does not speak of earlier releases.
    about = {EARLIER_RELEASES: [], **checkpoint.about}
    differing = [key for key, value in said.items() if about.get(key) != value]
    if differing:
        raise UnreadableInput(
            str(out), f"holds a run with other {', '.join(differing)}", "name another --out"
        )
    return checkpoint


def weights(questions: Sequence[Question], release: Path, settings: Settings) -> dict[str, float]:
    """How much each participant weighs."""
    if settings.reliability == "off":
        return even(questions)
    return reliabilities(questions, contradictions_dropped(release))


def write(
    out: Path,
    said: Mapping[str, Any],
    loaded: Loaded,
    retrained: Retrained,
    report: Mapping[str, Any],
) -> Checkpoint:
    """Write what goes with the checkpoint, then the checkpoint.

    Raises:
        UnreadableInput: the folder cannot be written to.
    """
    fitted = {"before": retrained.before.to_json(), "after": retrained.after.to_json()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / ANSWER_MODEL, to_json(fitted))
        write_whole(out / REPORT, to_json(report))
        write_whole(out / CARD, card(said, fitted, report).encode())
    except OSError as error:
        raise UnreadableInput(str(out), f"cannot be written ({error.strerror})") from error
    parts = {"scorer": trained_parameters(loaded.scorer)}
    return checkpoints.save(out, LAST, {**said, **ABOUT}, parts)
