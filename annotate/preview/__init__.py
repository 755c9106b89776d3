"""The preview of a study: the question page for its owner, who answers without storing anything."""
