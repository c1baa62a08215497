"""Versions of stored values. Each value carries its version, and readers convert older versions to the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject

ReadOlder = Callable[[JsonObject], JsonObject]
"""Turns a value of one version into the value that the next version would have written."""


class NewerVersion(ConfirmError):
    """A newer version wrote the value. A replica leaves such rows to replicas that can read them."""


class UnreadableRecord(ConfirmError):
    """No version of this program writes such a value."""


def add_version(version: int, part: JsonObject) -> JsonObject:
    return {"v": version, **part}


def strip_version(stored: object, what: str, current: int, readers: Mapping[int, ReadOlder]) -> JsonObject:
    """The stored value in the form of the current version, without its tag."""
    if not isinstance(stored, dict) or type(version := stored.get("v")) is not int:
        raise UnreadableRecord(f"A stored {what} has no version: it was not written by adk-confirm.")
    if version > current:
        raise NewerVersion(
            f"A stored {what} is of version {version}; this program reads up to {current}. Upgrade this replica."
        )
    part: JsonObject = {name: value for name, value in stored.items() if name != "v"}
    for step in range(version, current):
        if step not in readers:
            raise UnreadableRecord(f"A stored {what} is of version {version}, which this program can't read any more.")
        part = readers[step](part)
    return part
