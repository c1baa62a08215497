"""Errors that say when work on a row goes on. The lease loop knows no others; their owners raise them."""

from __future__ import annotations


class PutOff(Exception):
    """Nothing has failed: the row comes up again in `after` seconds."""

    after: float


class PutAside(Exception):
    """Nobody can do it until somebody changes something: trying again in a while would not help."""
