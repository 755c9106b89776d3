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


def test_nothing_is_sent_without_yes(release: OnDisk, hub: Hub) -> None:
    planned = hsfiq("release", "push", release.folder, "--repo", "group/study")
    assert planned.code == 0
    assert "repository: group/study\nlicence: CC-BY-4.0\nversion: 1.0.0\n" in planned.out
    assert planned.out.endswith("nothing was uploaded; add --yes to do so\n")
    assert hub.private == {}


@pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")  # the client's own
def test_the_files_arrive_as_they_are(release: OnDisk, hub: Hub, tmp_path: Path) -> None:
    arguments = ("release", "push", release.folder, "--repo", "group/study", "--json")
    pushed = hsfiq(*arguments, "--yes", "--private")
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
    assert hsfiq(*arguments, "--yes").code == 0  # the repository is there already


def test_a_release_without_licence_is_refused(release: OnDisk, hub: Hub) -> None:
    release.json("manifest.json", lambda manifest: manifest["publication"].update(licence=None))
    release.agree()
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert refused.code == 2
    assert "names no licence" in refused.err
    assert hub.private == {}


def test_a_broken_release_is_refused(release: OnDisk, hub: Hub) -> None:
    (release.folder / "queries.jsonl").unlink()
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert refused.code == 1
    assert "queries.jsonl: is missing" in refused.err
    assert hub.private == {}


def test_a_refusal_of_the_hub_is_one_line(release: OnDisk, hub: Hub) -> None:
    hub.refuses = True
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert refused.code == 2
    assert refused.err.startswith("hsfiq: --repo group/study: the upload was refused (")
    assert refused.err.count("\n") == 1


def test_a_repository_needs_an_owner(release: OnDisk) -> None:
    refused = hsfiq("release", "push", release.folder, "--repo", "study")
    assert (refused.code, refused.err) == (2, "hsfiq: --repo: 'study' is not like owner/name\n")


def test_who_is_not_logged_in_is_told_how(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(release.folder / "none"))
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_STORED_TOKENS_PATH", str(release.folder / "none")
    )
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert refused.code == 2
    assert "nobody is logged in; run `hf auth login`, or set HF_TOKEN" in refused.err
    assert hub.private == {}


def test_without_network_there_is_one_line(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "cannot be reached" in refused.err
    assert "HF_ENDPOINT" in refused.err


def test_a_token_that_the_hub_repeats_is_not_printed(
    release: OnDisk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError(f"the header was Bearer {TOKEN}")

    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", refuse)
    refused = hsfiq("release", "push", release.folder, "--repo", "group/study", "--yes")
    assert refused.code == 2
    assert TOKEN not in refused.err
    assert "the header was Bearer ***" in refused.err
