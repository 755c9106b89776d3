"""What is asked of somebody who wants to begin, before they get a place."""
