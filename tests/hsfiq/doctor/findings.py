"""What `hsfiq doctor` prints, and doing what it says."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

from tests.hsfiq.samples import hsfiq


def findings(*options: str) -> list[dict[str, Any]]:
    """The findings of the doctor, whose exit code says whether there is a problem."""
    command = hsfiq("doctor", "--json", *options)
    assert command.err == ""
    result = command.result
    has_problem = any(finding["status"] == "problem" for finding in result["findings"])
    assert (command.code, result["well"]) == ((1, False) if has_problem else (0, True))
    return list(result["findings"])


def of_check(check: str, *options: str) -> list[dict[str, Any]]:
    return [finding for finding in findings(*options) if finding["check"] == check]


def fault(check: str, status: str, words: str, *options: str) -> str:
    """The command that repairs the only fault of this check, which has these words."""
    (finding,) = (each for each in of_check(check, *options) if each["status"] != "ok")
    assert finding["status"] == status
    assert words in finding["what"]
    assert finding["fix"]
    return str(finding["fix"])


def is_well(*checks: str) -> bool:
    """Whether each of these checks was made and found no fault."""
    made = [finding for finding in findings() if finding["check"] in checks]
    faults = [finding for finding in made if finding["status"] != "ok"]
    return not faults and {finding["check"] for finding in made} == set(checks)


def repair(commands: str, **replaced: str) -> None:
    """Run what the doctor says: `hsfiq` in this process, other programs as they are."""
    for command in commands.split(" && "):
        words = shlex.split(command)
        words = [replaced.get(word, word) for word in words]
        if words[0] == "hsfiq":
            result = hsfiq(*words[1:])
            assert result.code == 0, result.err
        else:
            subprocess.run(words, check=True, capture_output=True)
