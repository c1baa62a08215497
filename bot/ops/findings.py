"""The findings of `adk-confirm check`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    OK = "ok"
    NOTE = "note"  # for information
    WARN = "warn"  # the service starts, but this is probably a mistake
    FIX = "FIX"


@dataclass(frozen=True)
class Finding:
    """`said` ends with what to do, if anything."""

    what: str
    mark: Severity
    said: str


def fine(what: str, said: str) -> Finding:
    return Finding(what, Severity.OK, said)


def note(what: str, said: str) -> Finding:
    return Finding(what, Severity.NOTE, said)


def warn(what: str, said: str) -> Finding:
    return Finding(what, Severity.WARN, said)


def fix(what: str, said: str) -> Finding:
    return Finding(what, Severity.FIX, said)


def either(ok: bool) -> Callable[[str, str], Finding]:
    return fine if ok else fix
