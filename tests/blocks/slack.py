"""What Slack does with a modal: shows it, lets somebody type, and sends `view.state.values` back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from pydantic import JsonValue

from adk_confirm.blocks.kit import JsonObject

State = dict[str, dict[str, dict[str, JsonValue]]]


class OpenForm:
    """A modal on somebody's screen. `type`, `choose`, `tick` and `clear` find their field by its label."""

    def __init__(self, view: JsonObject) -> None:
        self.view = view
        self.state: State = {}
        blocks = view["blocks"]
        assert isinstance(blocks, list)
        self.inputs = {str(b["block_id"]): b for b in blocks if isinstance(b, dict) and b["type"] == "input"}
        for block_id, block in self.inputs.items():
            element = block["element"]
            assert isinstance(element, dict)
            self.state[block_id] = {str(element["action_id"]): initial(element)}

    @property
    def labels(self) -> list[str]:
        return [label_of(block) for block in self.inputs.values()]

    def block_id(self, label: str) -> str:
        return next(block_id for block_id, block in self.inputs.items() if label_of(block) == label)

    def element(self, label: str) -> JsonObject:
        element = self.inputs[self.block_id(label)]["element"]
        assert isinstance(element, dict)
        return element

    def _entry(self, label: str) -> dict[str, JsonValue]:
        return next(iter(self.state[self.block_id(label)].values()))

    def type(self, label: str, text: str) -> OpenForm:
        self._entry(label)["value"] = text
        return self

    def clear(self, label: str) -> OpenForm:
        entry = self._entry(label)
        for key in ("value", "selected_date", "selected_date_time", "selected_option"):
            if key in entry:
                entry[key] = None
        return self

    def choose(self, label: str, text: str) -> OpenForm:
        options = self.element(label)["options"]
        assert isinstance(options, list)
        self._entry(label)["selected_option"] = next(o for o in options if text_of(o) == text)
        return self

    def tick(self, label: str) -> OpenForm:
        self._entry(label)["selected_options"] = self.element(label)["options"]
        return self


def initial(element: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    kind = element["type"]
    entry: dict[str, JsonValue] = {"type": kind}
    match kind:
        case "plain_text_input" | "number_input":
            entry["value"] = element.get("initial_value")
        case "static_select" | "radio_buttons":
            entry["selected_option"] = deepcopy(element.get("initial_option"))
        case "checkboxes":
            entry["selected_options"] = []
        case _:
            raise AssertionError(kind)
    return entry


def label_of(block: Mapping[str, JsonValue]) -> str:
    return text_of({"text": block["label"]})


def text_of(value: JsonValue) -> str:
    assert isinstance(value, dict)
    assert isinstance(value["text"], dict)
    text = value["text"]["text"]
    assert isinstance(text, str)
    return text
