"""Import external data into the database: triplets, ranked lists and published studies.

Every import runs in its caller's transaction and is idempotent: importing the same data twice adds
nothing.
"""

from hsfiq.importing.datasets import Imported, dataset_named, existing_dataset, import_source
from hsfiq.importing.published import import_published
from hsfiq.importing.runs import import_runs

__all__ = [
    "Imported",
    "dataset_named",
    "existing_dataset",
    "import_published",
    "import_runs",
    "import_source",
]
