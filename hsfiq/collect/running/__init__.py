"""What an owner does with a study beside its status: previews, edits of its texts, messages."""
