"""`python -m hsfiq`: the same as the command `hsfiq`."""

import sys
from pathlib import Path

# `-m` puts the current folder first on the path, where an unrelated `typer/` or `alembic.py` would
# be imported in place of the library; the installed command does not, nor does `python -P`.
if not (
    sys.flags.safe_path
    or Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent.parent
):
    del sys.path[0]

from hsfiq.cli import main

main()
