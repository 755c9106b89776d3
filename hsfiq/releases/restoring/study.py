"""The study that a release is of: its instrument, its texts, and what was dropped before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study, TextVersion
from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import open_place
from hsfiq.readers.hpfiq import ImagePaths
from hsfiq.releases.checking.counts import STRUCK
from hsfiq.releases.checking.further import HPFIQ, text_versions
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.instrument.extra_answers import ASKED
from hsfiq.releases.restoring.rows import rows_of
from hsfiq.releases.searching.instrument import searches_in
from hsfiq.study.config import (
    CHOSEN_BY,
    Design,
    Presentation,
    Questionnaire,
    StudyConfig,
    stored_config,
)
from hsfiq.study.design import PUBLISHED_IMAGE_PATH
from hsfiq.study.instrument import ExtraQuestion, Wording
from hsfiq.study.publication import KEY, Earlier, Publication

FACTS = ("design", "source_sha256")
SOURCE = ("name", "version", "filters", "content_sha256")


def restored_study(session: Session, release: ReleaseFolder, name: str, k: int) -> Study:
    """A closed study with the release's instrument and texts, and no question yet.

    `k` is the number of images in its sets. Releases say neither how many forms a participant was
    to have nor how questions were drawn: those settings are the standard ones.
    """
    manifest = release.manifest
    config = config_of_release(release, name, k)
    design = stored_config(config)
    if manifest.get("origin") == "imported":  # only what was stated of its releases
        design = {"release": design["release"]}
    chosen = {CHOSEN_BY: manifest[CHOSEN_BY]} if CHOSEN_BY in manifest else {}
    study = Study(
        name=name,
        title=manifest.get("title") or name,
        guidelines="",
        consent="",
        status="closed",
        origin=manifest.get("origin", "imported"),
        kind=config.design.kind,
        k=k,
        ties_allowed=bool(manifest.get("ties_allowed")),
        forms_per_participant=config.design.forms_per_participant,
        design=design | chosen | {KEY: asdict(earlier_in(release))},
        image_path=image_path_in(release.path),
        source_sha256=manifest["content_sha256"],
    )
    session.add(study)
    session.flush()
    restore_texts(session, release.path, study)
    return study


def config_of_release(release: ReleaseFolder, name: str, k: int) -> StudyConfig:
    manifest = release.manifest
    scale = manifest.get("scale") or {}
    anchors = tuple(scale.get("anchors") or ())
    words: dict[str, Any] = {
        **(manifest.get("wording") or {}),
        "levels" if "levels" in scale else "anchors": anchors,
    }
    kind: Any = release.kind.question_kind
    return StudyConfig(
        study=Presentation(
            name=name,
            title=manifest.get("title") or name,
            languages=tuple(manifest.get("languages") or ("en",)),
        ),
        design=Design(
            kind=kind,
            k=k,
            levels=scale.get("levels", 2),
            preference_ties=bool(manifest.get("ties_allowed")),
        ),
        wording=Wording(**words),
        questionnaire=questionnaire_in(release),
        searches=searches_in(manifest),
        release=publication_in(manifest),
    )


def publication_in(manifest: Mapping[str, Any]) -> Publication:
    """What the owner stated of the release; null is not stated."""
    stated = manifest.get("publication") or {}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stated.items()
        if value is not None
    }
    return Publication(**values)


def questionnaire_in(release: ReleaseFolder) -> Questionnaire:
    lists: dict[str, list[ExtraQuestion]] = {name: [] for name in ASKED}
    list_of = {asked: name for name, asked in ASKED.items()}
    for row in rows_of(release, "fields"):
        lists[list_of[row["asked"]]].append(
            ExtraQuestion(
                name=row["field"],
                type=row["type"],
                text=row["wording"],
                options=tuple(row["options"] or ()),
                required=row["required"],
                **limits_of(row),
            )
        )
    return Questionnaire(after_each=tuple(lists["after_each"]), at_end=tuple(lists["at_end"]))


def limits_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of an extra question, and whether it had "Other"; older releases lack them."""
    given = {name: row.get(name) for name in ("min", "max", "other")}
    return {name: value for name, value in given.items() if value is not None}


def earlier_in(release: ReleaseFolder) -> Earlier:
    funnel = release.manifest.get("funnel") or {}
    return Earlier(
        source={name: release.manifest.get(name) for name in SOURCE},
        facts={name: release.manifest[name] for name in FACTS if name in release.manifest},
        steps=funnel.get("steps", []),
        exclusions=[row for row in rows_of(release, "exclusions") if row["rule"] != STRUCK],
        repeats=list(rows_of(release, "repeats")),
        without=release.manifest.get("without", ()),
        left_out=release.manifest.get("left_out", {}),
    )


def image_path_in(folder: Path) -> str:
    """The pattern of image paths in the published layout, if the release has it."""
    path = folder / HPFIQ
    if not path.is_file():
        return PUBLISHED_IMAGE_PATH
    paths = ImagePaths()
    for _, forms in open_place(path).items(80):
        for _, form in forms.items(80):
            for image in form.key("ref_img_paths").list():
                paths.name(image)
                if paths.pattern is not None:
                    return paths.pattern
    return PUBLISHED_IMAGE_PATH


def restore_texts(session: Session, folder: Path, study: Study) -> None:
    """Store the versions of the texts that participants read; when they began is not released."""
    for number, texts in text_versions(folder):
        session.add(TextVersion(study_id=study.id, number=number, texts=texts))
        study.text_version = number
    session.flush()


def require_new_name(session: Session, name: str, digest: str) -> bool:
    """Whether no study has this name; false if it is of the same release.

    Raises:
        UnreadableInput: a study of something else has it.
    """
    before = session.scalars(select(Study).where(Study.name == name)).one_or_none()
    if before is None:
        return True
    if before.source_sha256 == digest:
        return False
    raise UnreadableInput(
        f"study {name}", "already exists with other answers", "choose a name with --study"
    )
