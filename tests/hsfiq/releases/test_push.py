"""`hsfiq release push`, against a server that speaks the hub's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hsfiq.releases.layouts.layouts import Extras
from hsfiq.study.publication import Publication
from tests.annotate.serving.proxies import free_port
from tests.hsfiq.releases.hub_server import TOKEN, Hub, served_hub
from tests.hsfiq.releases.small_releases import OnDisk, small_study_at, write_release
from tests.hsfiq.samples import hsfiq

LICENCE = "CC-BY-4.0"


@pytest.fixture
def release(tmp_path: Path) -> OnDisk:
    database, study = small_study_at(tmp_path / "study.db", "query")
    extras = Extras(publication=Publication(licence=LICENCE))
    folder = write_release(database, study, "query", tmp_path / "release", extras=extras)
    database.close()
    return OnDisk(folder)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with served_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        yield served


PUSH = ("release", "push", "--repo", "group/study")


def refusal(release: OnDisk, code: int = 2) -> str:
    """The line with which a push is refused."""
    refused = hsfiq(*PUSH, release.folder)
    assert (refused.code, refused.err.count("\n")) == (code, 1)
    return refused.err


def test_a_dry_run_sends_nothing(release: OnDisk, hub: Hub) -> None:
    planned = hsfiq(*PUSH, release.folder, "--dry-run")
    assert planned.code == 0
    assert "repository: group/study\nlicense: CC-BY-4.0\nversion: 1.0.0\n" in planned.out
    assert planned.out.endswith("nothing was uploaded\n")
    assert hub.private == {}


@pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")  # the client's own
def test_the_files_arrive_as_they_are(release: OnDisk, hub: Hub, tmp_path: Path) -> None:
    pushed = hsfiq(*PUSH, release.folder, "--json", "--private")
    assert pushed.code == 0, pushed.err
    assert hub.private == {"group/study": True}
    assert hub.files["group/study"] == {
        path.name: path.read_bytes() for path in release.folder.iterdir()
    }
    assert pushed.result["bytes"] == sum(map(len, hub.files["group/study"].values()))
    assert [commit["summary"] for commit in hub.commits] == ["Release 1.0.0"]
    assert pushed.result["commit"] == f"{hub.address}/datasets/group/study/commit/{1:040x}"

    downloaded = tmp_path / "downloaded"
    downloaded.mkdir()
    for name, content in hub.files["group/study"].items():
        (downloaded / name).write_bytes(content)
    assert hsfiq("release", "verify", downloaded).code == 0
    assert hsfiq(*PUSH, release.folder).code == 0  # the repository is there already


def test_a_release_that_is_broken_or_without_licence_is_refused(release: OnDisk, hub: Hub) -> None:
    release.json("manifest.json", lambda manifest: manifest["publication"].update(licence=None))
    release.agree()
    assert "has no license" in refusal(release)
    (release.folder / "queries.jsonl").unlink()
    assert "queries.jsonl: is missing" in refusal(release, 1)
    assert hub.private == {}


def test_a_refusal_of_the_hub_is_one_line(release: OnDisk, hub: Hub) -> None:
    hub.refuses = True
    assert "--repo group/study: the upload was refused (" in refusal(release)


def test_a_repository_needs_an_owner(release: OnDisk) -> None:
    refused = hsfiq("release", "push", release.folder, "--repo", "study")
    assert (refused.code, "--repo: 'study'" in refused.err) == (2, True)


def test_who_is_not_logged_in_is_told_how(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    for name in ("HF_TOKEN_PATH", "HF_STORED_TOKENS_PATH"):
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", str(release.folder / "none"))
    assert "nobody is logged in; run `hf auth login`, or set HF_TOKEN" in refusal(release)
    assert hub.private == {}


def test_without_network_there_is_one_line(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    line = refusal(release)
    assert "cannot be reached" in line
    assert "HF_ENDPOINT" in line


def test_a_token_that_the_hub_repeats_is_not_printed(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError(f"the header was Bearer {TOKEN}")

    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", refuse)
    line = refusal(release)
    assert TOKEN not in line
    assert "the header was Bearer ***" in line
