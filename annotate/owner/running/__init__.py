"""What the owner does with a study beside its status: the preview, edits of its texts, messages."""
