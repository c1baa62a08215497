"""A modal on somebody's screen, with what they type into it: as the sandbox's Slack keeps it, without a workspace."""

from __future__ import annotations

from typing import Self

from pydantic import JsonValue

from adk_confirm.sandbox.people.state import entry, picked, values
from adk_confirm.sandbox.reading import JsonObject, as_object, as_text, label, objects


class OpenForm:
    """Fields are found by their labels, options by theirs."""

    def __init__(self, view: JsonObject) -> None:
        self.view = view
        self.inputs = {as_text(b.get("block_id")): b for b in objects(view["blocks"]) if b["type"] == "input"}
        self._named: dict[str, str] = {}
        for block in objects(view["blocks"]):
            block_id = as_text(block.get("block_id"))
            if block["type"] == "input":
                self._named.setdefault(label(block["label"]), block_id)
        self.entered: dict[tuple[str, str], JsonObject] = {}

    @property
    def state(self) -> JsonObject:
        """What Slack sends as `state.values`."""
        return values([*self.inputs.values()], self.entered)

    @property
    def labels(self) -> list[str]:
        return [label(block["label"]) for block in self.inputs.values()]

    def block_id(self, field: str) -> str:
        return self._named[field]

    def element(self, field: str) -> JsonObject:
        return as_object(self.inputs[self.block_id(field)]["element"])

    def enter(self, field: str, value: JsonValue) -> Self:
        element = self.element(field)
        key = (self.block_id(field), as_text(element["action_id"]))
        self.entered[key] = entry(element, picked(element, value, "UTC"))
        return self
