"""Errors that postpone work on a row, and say until when. The lease loop handles these; their owners raise them."""

from __future__ import annotations


class PutOff(Exception):
    """The row is tried again in `after` seconds, through no fault of its own. `failing`: the other side does not work,
    so the pause grows with how long the row has waited."""

    after: float

    @property
    def failing(self) -> bool:
        return False


class PutAside(Exception):
    """It can't be done until somebody changes something. Trying again later would not help."""
