"""`python -m hsfiq`: the same as the command `hsfiq`."""

import sys
from pathlib import Path

# `-m` puts the current folder first on the path, where a stranger's `model/` or `analysis/`
# would be taken for ours; the installed command does not, nor does `python -P`.
if not (
    sys.flags.safe_path
    or Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent.parent
):
    del sys.path[0]

from hsfiq.cli import main

main()
