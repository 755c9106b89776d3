"""What the owner reviews: how a participant answered, and how everybody judged one item."""
