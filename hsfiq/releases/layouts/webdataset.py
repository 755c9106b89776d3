"""`webdataset`: shards of samples, each a question with its images and its answer as JSON.

A sample has `<key>.json` and, for each available image, `<key>.reference.jpg`, `<key>.target.jpg`
and `<key>.set_1_0.jpg` (set 1, its best image), with the extensions of the files. The same release
gives the same bytes: archive members have no time and no owner.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from hsfiq.kinds.rows import Part
from hsfiq.releases.layouts.packed_images import JudgedQuestion, Pictures, read_judged

SAMPLES_IN_SHARD = 1_000


def write_webdataset(folder: Path, pictures: Pictures) -> list[str]:
    """Write `webdataset-000000.tar`, ..., or those of each part of a split; return notes."""
    n_written: dict[Part | None, int] = {}
    n_incomplete = 0
    shards: dict[Part | None, tarfile.TarFile] = {}
    with ExitStack() as stack:
        for question in (each for batch in read_judged(folder) for each in batch):
            number = n_written.get(question.part, 0)
            n_written[question.part] = number + 1
            if number % SAMPLES_IN_SHARD == 0:
                if question.part in shards:
                    shards[question.part].close()
                part = f"-{question.part}" if question.part else ""
                name = f"webdataset{part}-{number // SAMPLES_IN_SHARD:06}.tar"
                shards[question.part] = stack.enter_context(tarfile.open(folder / name, "w"))
            members = dict(sample(question, pictures))
            n_incomplete += b": null" in members["json"].partition(b'"images": ')[2]
            for suffix, content in members.items():
                member = tarfile.TarInfo(f"{number:09}.{suffix}")
                member.size = len(content)
                shards[question.part].addfile(member, io.BytesIO(content))
    return (
        [f"webdataset: {n_incomplete:,} questions lack an image (null in their JSON)"]
        if n_incomplete
        else []
    )


def sample(question: JudgedQuestion, pictures: Pictures) -> Iterator[tuple[str, bytes]]:
    """The members of a sample by suffix; absent images are null in the JSON."""
    names: dict[str, str | None] = {}
    for place, image_id in places_of(question).items():
        picture = pictures.read(question.dataset, image_id)
        names[place] = None if picture is None else f"{place}{Path(picture.file_name).suffix}"
        if picture is not None:
            yield f"{place}{Path(picture.file_name).suffix}", picture.content
    row = {
        "question_id": question.question_id,
        "participant_id": question.participant_id,
        "text": question.text,
        "reference_id": question.reference,
        "target_id": question.target,
        "image_ids": question.sets,
        "score_1": question.scores[0],
        "score_2": question.scores[1],
        "preferred": question.preferred,
        "images": names,
    }
    yield "json", json.dumps(row, ensure_ascii=False).encode()


def places_of(question: JudgedQuestion) -> dict[str, str]:
    named = {"reference": question.reference, "target": question.target}
    places = {place: image for place, image in named.items() if image is not None}
    for side, images in enumerate(question.sets, start=1):
        places |= {f"set_{side}_{rank}": image for rank, image in enumerate(images)}
    return places
