"""Python's own settings, for a process that serves."""

from __future__ import annotations

import gc
import sys

_TAKING_TURNS = 0.0005
"""The store's thread gives the interpreter away with each statement and gets it back from the event loop, by Python's
default up to five milliseconds later. Under many clicks that was most of the time until an ack."""
_GARBAGE = (20_000, 50, 20)
"""Python's own thresholds make a busy process spend a fourth of its time on looking for garbage, and there is little:
most objects go when nothing refers to them any more."""


def tune_the_interpreter() -> None:
    """Call it once everything is loaded and made."""
    sys.setswitchinterval(_TAKING_TURNS)
    gc.freeze()  # all of this stays: a full collection would look through it while people wait
    gc.set_threshold(*_GARBAGE)
    gc.enable()
