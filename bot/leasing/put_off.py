"""Errors that postpone work on a row and say for how long. The lease loop handles them."""

from __future__ import annotations


class PutOff(Exception):
    """The row should be tried again in `after` seconds, and this is not its fault. `failing`: the other side does not
    work, so the pause grows with the time that the row has waited."""

    after: float
    failing: bool = False
