"""Sets Python's garbage collector and thread switching for a process that serves requests."""

from __future__ import annotations

import gc
import sys

_SWITCH_INTERVAL = 0.0005
"""The store's thread yields the interpreter with each statement, and gets it back from the event loop up to five
milliseconds later by Python's default. Under many clicks, this was most of the time until an ack."""
GARBAGE_THRESHOLDS = (20_000, 50, 20)
"""With Python's defaults, a busy process spends a quarter of its time on searching for garbage, and finds little: most
objects are freed by reference counting."""


def tune_the_interpreter() -> None:
    """Call this once everything is loaded."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.freeze()  # everything loaded so far stays, so garbage collections can skip it
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()
