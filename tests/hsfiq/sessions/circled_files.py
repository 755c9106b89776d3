"""Sessions in the format of CIRCLED, which scripts are read from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hsfiq.sessions.record import Session


def write_circled(path: Path, sessions: Iterable[Session]) -> None:
    content = [
        {
            "session_id": session.session_id,
            "subset": session.category or "",
            "ground_truth_ids": list(session.targets),
            "num_turns": len(session.rounds),
            "turns": [
                {
                    "turn": each.round,
                    "reference_image_id": each.reference,
                    "relative_caption": each.text,
                }
                for each in session.rounds
            ],
        }
        for session in sessions
    ]
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
