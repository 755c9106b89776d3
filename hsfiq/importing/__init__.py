"""Outside data into the database: triplets, ranked lists, and published studies.

Every import works inside its caller's transaction, so that it is there whole or not at all, and
finds what is already there: importing the same thing twice adds nothing.
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
