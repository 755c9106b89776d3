"""Potato (potato-annotation 2.12.1, GPL-3.0) for comparison: a separate process, none of its code.

Its Python is named by HSFIQ_POTATO (default .venv-potato); `make bench-setup` installs it there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.browsing import Browser, answers, wait_until

CONFIG = """\
annotation_task_name: CIR set preference
task_dir: .
port: {port}
output_annotation_dir: out/
output_annotation_format: json
media_directory: media
require_password: false
data_files: [data/questions.jsonl]
item_properties: {{id_key: id, text_key: text}}
user_config: {{allow_all_users: true, users: []}}
secret_key: benchmark
instance_display:
  layout: {{direction: vertical, gap: 12px}}
  fields:
    - {{key: reference, type: image, label: Reference, display_options: {{max_width: 260}}}}
    - {{key: text, type: text, label: Modification}}
    - {{key: set_1, type: gallery, label: Set 1, display_options: {{layout: grid, columns: 5}}}}
    - {{key: set_2, type: gallery, label: Set 2, display_options: {{layout: grid, columns: 5}}}}
annotation_schemes:
  - {{annotation_type: likert, name: score_1, description: Rate set 1, size: 5, min_label: not at
      all, max_label: very well, label_requirement: {{required: true}}}}
  - {{annotation_type: likert, name: score_2, description: Rate set 2, size: 5, min_label: not at
      all, max_label: very well, label_requirement: {{required: true}}}}
  - {{annotation_type: radio, name: preference, description: Which set is better, labels: [one,
      two], label_requirement: {{required: true}}}}
  - {{annotation_type: text, name: reason, description: Reason (optional)}}
"""

Item = dict[str, object]
"""{"id", "text", "reference", "set_1", "set_2"}, images as file names."""


def program() -> Path:
    """Potato's command.

    Raises:
        SystemExit: it is not installed.
    """
    path = Path(os.environ.get("HSFIQ_POTATO", ".venv-potato")).resolve() / "bin" / "potato"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `make bench-setup` first")
    return path


@contextmanager
def served(folder: Path, images: Path, items: Sequence[Item], port: int) -> Iterator[int]:
    """Potato serving these items, until the block ends; its process's id."""
    (folder / "data").mkdir(parents=True)
    (folder / "media").symlink_to(images)
    (folder / "config.yaml").write_text(CONFIG.format(port=port))
    with (folder / "data" / "questions.jsonl").open("w") as file:
        file.writelines(json.dumps(as_potato(item)) + "\n" for item in items)
    command = [str(program()), "start", "config.yaml", "-p", str(port), "--host", "127.0.0.1"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(port, "/health"), "Potato")
            yield process.pid
        finally:
            process.kill()
            process.wait()


def as_potato(item: Item) -> dict[str, object]:
    """The item with its images' URLs."""

    def gallery(names: object) -> list[dict[str, str]]:
        return [{"url": f"/media/{name}"} for name in names]  # type: ignore[attr-defined]

    return {
        "id": item["id"],
        "text": item["text"],
        "reference": f"/media/{item['reference']}",
        "set_1": gallery(item["set_1"]),
        "set_2": gallery(item["set_2"]),
    }


def stored_answers(folder: Path) -> int:
    """The number of answered items in Potato's files, over all users."""
    return sum(
        len(json.loads(path.read_text())["instance_id_to_label_to_value"])
        for path in (folder / "out").glob("*/user_state.json")
    )


class PotatoUser:
    """A person at Potato's page: what the page's own script sends, in its order."""

    _INSTANCE = re.compile(
        rb'name="instance_id"[^>]*value="([^"]+)"|id="instance_id"[^>]*value="([^"]+)"'
    )

    def __init__(self, port: int, name: str) -> None:
        self._browser = Browser(port)
        self._browser.post_form("/auth", email=name)
        self._instance = self._open()

    def _open(self) -> str:
        match = self._INSTANCE.search(self._browser.get("/annotate"))
        if match is None:
            raise RuntimeError("Potato shows no item")
        return (match[1] or match[2]).decode()

    def cycle(self) -> None:
        """Save, move on, load the next item's page."""
        annotations = {"score_1:4": "4", "score_2:2": "2", "preference:one": "one"}
        saved = {"instance_id": self._instance, "annotations": annotations, "span_annotations": []}
        self._post("/updateinstance", saved)
        self._post(
            "/annotate",
            {"action": "next_instance", "instance_id": self._instance},
            X_Potato_Navigation="1",
        )
        before, self._instance = self._instance, self._open()
        if self._instance == before:
            raise RuntimeError("Potato did not move on")

    def _post(self, path: str, body: object, **headers: str) -> None:
        self._browser.send("POST", path, json.dumps(body).encode(), "application/json", **headers)
