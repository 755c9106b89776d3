"""Whether the database's clock is ours, and whether the time has gone back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, func, select

from hsfiq.db.tables import Participant
from hsfiq.doctor.finding import Finding

TOLERATED = timedelta(seconds=5)
SYNCHRONISE = "timedatectl set-ntp true"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def examine_clock(engine: Engine, clock: Clock = utc_now) -> Finding:
    """Compare the server's clock, and the last request that was stored, with `clock`."""
    now = clock()
    last_seen = select(func.max(Participant.seen_at))
    with engine.connect() as connection:
        latest = connection.scalar(last_seen)
        if engine.dialect.name == "postgresql":
            begun = clock()
            theirs = connection.execute(select(func.clock_timestamp())).scalar_one()
            now = clock()
            if not begun - TOLERATED <= theirs <= now + TOLERATED:
                seconds = (theirs - now).total_seconds()
                what = f"the database's clock differs from this machine's by {seconds:+,.0f} s"
                return Finding("clock", "problem", what, SYNCHRONISE)
    if latest is not None and latest > now + TOLERATED:
        what = (
            f"a participant was last seen at {latest:%Y-%m-%d %H:%M} UTC, which is not yet: "
            "a clock is or was wrong"
        )
        return Finding("clock", "warning", what, SYNCHRONISE)
    return Finding("clock", "ok", f"{now:%Y-%m-%d %H:%M:%S} UTC")
