"""How somebody becomes a participant, and stops being one."""
