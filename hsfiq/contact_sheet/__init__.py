"""One query with the lists that systems gave for it, drawn on one page."""

from hsfiq.contact_sheet.content import SheetQuery, SheetRow, query_in_folder, rows_of_runs
from hsfiq.contact_sheet.stored import stored_image_root, stored_query, stored_rows

__all__ = [
    "SheetQuery",
    "SheetRow",
    "query_in_folder",
    "rows_of_runs",
    "stored_image_root",
    "stored_query",
    "stored_rows",
]
