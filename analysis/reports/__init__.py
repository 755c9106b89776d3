"""Reports on releases (`hsfiq.analysis.report`): a page, figures, tables and JSON."""
