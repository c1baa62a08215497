"""What a person sees: messages as they last saw them, modals to fill in, the Home tab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adk_confirm.sandbox.blockkit.elements import element_labels, interactive
from adk_confirm.sandbox.people.forms import entered_in
from adk_confirm.sandbox.people.gestures import Gestures
from adk_confirm.sandbox.people.plain import Reader, entered_text
from adk_confirm.sandbox.people.state import picked
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, label, objects
from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.records import Message, View


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as one person saw it at one moment. It does not change when the message changes."""

    author: str
    text: str
    message: Message

    @property
    def ts(self) -> str:
        return self.message.ts

    @property
    def thread(self) -> str:
        return self.message.thread_ts or self.message.ts

    @property
    def channel(self) -> str:
        return self.message.channel_id

    @property
    def fallback(self) -> str:
        """What notifications and screen readers read instead of the blocks."""
        return self.message.text

    @property
    def ephemeral(self) -> bool:
        return bool(self.message.only_for)

    @property
    def buttons(self) -> tuple[str, ...]:
        """Everything that can be pressed, including the entries behind "⋯"."""
        return tuple(name for _, element in controls(self.message.blocks) for name in element_labels(element))

    def __contains__(self, words: str) -> bool:
        return words in self.text

    def __str__(self) -> str:
        return f"{self.author}: {self.text}"


def controls(blocks: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    return [(as_text(block.get("block_id")), element) for block in blocks for element in interactive(block)]


def find_control(blocks: Sequence[JsonObject], name: str) -> tuple[str, JsonObject]:
    """Finds a control by its label (with or without "…"), its action_id or its accessible name; a menu by an entry."""
    for block_id, element in controls(blocks):
        said = element_labels(element)
        names = (*said, *(label.removesuffix("…") for label in said), element.get("action_id"))
        if name in (*names, element.get("accessibility_label")):
            return block_id, element
    there = [name for _, element in controls(blocks) for name in element_labels(element)]
    raise NotFound(f"There is no “{name}” to click here, only {there}.")


class Surface:
    """A view that one person can read and use."""

    def __init__(self, view: View, reader: Reader, gestures: Gestures) -> None:
        self._view = view
        self._reader = reader
        self._gestures = gestures

    @property
    def view(self) -> View:
        return self._view

    @property
    def text(self) -> str:
        return self._reader.blocks(self._blocks, lambda block, _: self._shown(block))

    @property
    def buttons(self) -> tuple[str, ...]:
        pressed = (element for _, element in controls(self._blocks) if element.get("type") in ("button", "overflow"))
        return tuple(name for element in pressed for name in element_labels(element))

    def __contains__(self, words: str) -> bool:
        return words in str(self)

    def __str__(self) -> str:
        return self.text

    async def clicks(self, button: str, value: Json = None) -> Delivery:
        block_id, element = find_control(self._blocks, button)
        value = button if value is None and element.get("type") == "overflow" else value
        user, action_id = self._reader.user, as_text(element.get("action_id"))
        new = picked(element, value, user.tz)
        return await self._gestures.act_in_view(user, self._view, block_id, action_id, new)

    def _shown(self, block: JsonObject) -> str:
        return entered_text(entered_in(self._view, block), self._reader.user.tz)

    @property
    def _blocks(self) -> list[JsonObject]:
        return objects(self._view.body.get("blocks"))


class Home(Surface):
    """The app's Home tab of one person."""


class Modal(Surface):
    """The modal that a person sees, with fields by their labels and errors under them."""

    @property
    def title(self) -> str:
        return label(self._view.body.get("title"))

    def is_open(self) -> bool:
        return not self._view.closed

    @property
    def fields(self) -> dict[str, str]:
        """What each field shows, by its label."""
        return {label(each.get("label")): self._shown(each) for each in self._inputs}

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong, by the label of the field."""
        names = {as_text(each.get("block_id")): label(each.get("label")) for each in self._inputs}
        return {names[block_id]: text for block_id, text in self._view.errors.items()}

    def __str__(self) -> str:
        wrong = [f"{name}: {text}" for name, text in self.errors.items()]
        submit = label(self._view.body.get("submit"))
        return "\n".join([self.title, self.text, *wrong, *([f"[{submit}]"] if submit else [])])

    async def fill(self, values: Mapping[str, Json]) -> None:
        """Fills fields, by label, action_id or block_id. Options go by their labels. None empties a field."""
        for name, value in values.items():
            block = self._field(name)
            element = as_object(block.get("element"))
            new = picked(element, value, self._reader.user.tz)
            self._gestures.enter(self._view, as_text(block.get("block_id")), new)

    async def submits(self, values: Mapping[str, Json] | None = None) -> Delivery | None:
        """Fills in and sends the modal. None if the client itself found an error: see `errors`."""
        await self.fill(values or {})
        return await self._gestures.submit(self._reader.user, self._view)

    def closes(self) -> None:
        self._gestures.close(self._view)

    def _field(self, name: str) -> JsonObject:
        for block in self._inputs:
            element = as_object(block.get("element"))
            if name in (label(block.get("label")), element.get("action_id"), block.get("block_id")):
                return block
        raise NotFound(f"There is no field “{name}” in “{self.title}”, only {list(self.fields)}.")

    @property
    def _inputs(self) -> list[JsonObject]:
        return [block for block in self._blocks if block.get("type") == "input"]
