"""A study: its configuration, its queries, and the forms that participants answer."""
