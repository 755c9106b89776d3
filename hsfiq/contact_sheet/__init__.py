"""Contact sheets: one query with the ranked lists of systems, drawn on one page."""
