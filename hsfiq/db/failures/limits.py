"""How many seconds a server's statements in PostgreSQL may wait and last.

SQLite needs no such limits: its writers wait for `BUSY_SECONDS`, and its readers not at all.
"""

from __future__ import annotations

LOCK_SECONDS, STATEMENT_SECONDS, IDLE_SECONDS = 5, 30, 60
"""For a lock; for one statement; between two statements of a transaction.

The question page gives up a request after 20 seconds.
"""

ANSWER_SECONDS = STATEMENT_SECONDS + 5.0
"""For the answer to a statement: PostgreSQL itself ends the statement earlier."""
