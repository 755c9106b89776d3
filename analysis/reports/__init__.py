"""Reports: what `hsfiq.analysis.report` says of a release, as a page, figures, tables and JSON."""
