from __future__ import annotations

import json

from hsfiq.cli.common import indented_json


def test_three_levels_are_indented() -> None:
    value = {"a": {"b": {"c": {"d": [1]}}, "empty": {}}, "ü": [[], [None, True, 'say "x"']]}
    text = indented_json(value)
    assert json.loads(text) == value
    assert text.splitlines() == [
        "{",
        '  "a": {',
        '    "b": {',
        '      "c": {"d": [1]}',
        "    },",
        '    "empty": {}',
        "  },",
        '  "ü": [',
        "    [],",
        "    [",
        "      null,",
        "      true,",
        '      "say \\"x\\""',
        "    ]",
        "  ]",
        "}",
    ]
