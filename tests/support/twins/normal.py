"""Normalises the events of a run, so that two runs of a scene can be compared: ids by first appearance, no times,
default hints alike, and without what ours and our plugin add to requests."""

from __future__ import annotations

import re
from typing import Any

from adk_confirm.runtime.adk.signing import ANNOUNCEMENTS
from tests.support.twins.scenes import WAITING

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(rf"(adk-|e-|p-|){_UUID}")
_HINT = re.compile(
    r"Please approve or reject the tool call (\w+)\(\) by responding with a FunctionResponse with an expected "
    r"ToolConfirmation payload\.|Approve execution of tool (\w+)\?"
)
_CLOCKS = ("timestamp", "lastUpdateTime")
_REJECTIONS = ("This tool call is rejected.", "tool call was rejected by the user")


class Normal:
    """The names for the ids of one run. Feed it everything in the order in which it was seen."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            fields = _without_announcement(value)
            return {self._text(key): self._field(key, inside) for key, inside in fields.items() if key not in _CLOCKS}
        if isinstance(value, list):
            return [self.of(inside) for inside in value if not _only_waits(inside)]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: Any) -> Any:
        """Sorts sets, because their order means nothing."""
        return sorted(self.of(value)) if key == "longRunningToolIds" else self.of(value)

    def _text(self, text: str) -> str:
        for rejection in _REJECTIONS:
            text = text.replace(rejection, "rejected")
        return _HINT.sub(lambda hint: f"the hint of {hint[1] or hint[2]}", _ID.sub(self._name, text))

    def _name(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"{found[1]}#{len(self._names) + 1}")


def _without_announcement(value: dict[str, Any]) -> dict[str, Any]:
    metadata = value.get("customMetadata")
    if not isinstance(metadata, dict) or ANNOUNCEMENTS not in metadata:
        return value
    left = {key: inside for key, inside in metadata.items() if key != ANNOUNCEMENTS}
    bare = {key: inside for key, inside in value.items() if key != "customMetadata"}
    return {**bare, "customMetadata": left} if left else bare


def _only_waits(value: Any) -> bool:
    content = value.get("content") if isinstance(value, dict) else None
    return isinstance(content, dict) and content.get("parts") == [WAITING]
