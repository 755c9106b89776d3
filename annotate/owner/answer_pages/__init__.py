"""Pages of single answers with their pictures, linked from the dashboard's tables."""
