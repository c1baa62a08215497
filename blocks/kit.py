"""Builds the parts of messages and views. The tests hold every payload against Slack's limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.click_ids import Action, Callback
from adk_confirm.blocks.rich_text import JsonObject as JsonObject
from adk_confirm.blocks.rich_text import Line, Piece, marked, markup, part, rich, text
from adk_confirm.blocks.text import BUTTON, CONFIRM_TEXT, CONFIRM_TITLE, HEADER, MESSAGE_TEXT, SECTION, fit, plain


@dataclass(frozen=True, slots=True)
class Message:
    """The text and blocks for `chat.postMessage` and `chat.update`, without the place. It always has both."""

    text: str
    blocks: tuple[JsonObject, ...]
    metadata: JsonObject = field(default_factory=dict)

    def payload(self) -> JsonObject:
        payload: JsonObject = {"text": self.text, "blocks": list(self.blocks)}
        return payload | {"metadata": self.metadata} if self.metadata else payload


def message(pieces: Sequence[Piece], block_id: str, *more: JsonObject) -> Message:
    """A message of these pieces in a block, and of more blocks below."""
    return Message(text([], pieces, [], MESSAGE_TEXT), (rich(pieces, block_id), *more))


def plain_text(text: str) -> JsonObject:
    """Text in which nothing has a special meaning, not even `:emoji:`."""
    return part("plain_text", text=text, emoji=False)


def header(text: str, block_id: str) -> JsonObject:
    return part("header", text=plain_text(fit(text, HEADER).text), block_id=block_id)


_LINES_IN_CONTEXT = 10


def small_print(lines: Sequence[Line], block_id: str) -> list[JsonObject]:
    """Secondary facts, in grey. Supplied text is made safe here too."""
    elements: list[JsonValue] = [part("mrkdwn", text=markup(line.spans, 120)) for line in lines[:_LINES_IN_CONTEXT]]
    return [part("context", elements=elements, block_id=block_id)] if elements else []


def section(lines: Sequence[Line], block_id: str, accessory: JsonObject) -> JsonObject:
    """Lines with a button or a menu beside them."""
    said = part("mrkdwn", text=marked(lines, SECTION))
    return part("section", text=said, block_id=block_id, accessory=accessory)


def actions(elements: Sequence[JsonObject], block_id: str) -> list[JsonObject]:
    return [part("actions", elements=[*elements], block_id=block_id)] if elements else []


def confirm(what: str, texts: tuple[str, str], verb: str, style: str | None = None) -> JsonObject:
    """A question before something is done: `what` it is about, supplied text, and the consequence."""
    title, consequence = texts
    said = plain(what, CONFIRM_TEXT - len(consequence) - 2)
    text = f"{said}{'' if said.endswith(('.', '?', '!', '…')) else '.'} {consequence}"
    asked: JsonObject = {
        "title": plain_text(fit(title, CONFIRM_TITLE).text),
        "text": plain_text(fit(text, CONFIRM_TEXT).text),
        "confirm": plain_text(verb),
        "deny": plain_text(words.BACK),
    }
    return asked | {"style": style} if style else asked


def button(
    action: Action,
    label: str,
    value: str | None = None,
    *,
    about: str | None = None,
    style: str | None = None,
    sure: JsonObject | None = None,
) -> JsonObject:
    """A button. `about` is the tool that it acts on, for screen readers."""
    spoken = None
    if about is not None:
        spoken = fit(f"{label}: {plain(about, BUTTON)}", BUTTON).text
    return part(
        "button",
        text=plain_text(label),
        action_id=action.value,
        value=value,
        style=style,
        confirm=sure,
        accessibility_label=spoken,
    )


def option(value: str, label: str) -> JsonObject:
    return {"value": value, "text": plain_text(label)}


def input_block(
    label: JsonObject, element: JsonObject, block_id: str, *, optional: bool, hint: str | None = None
) -> JsonObject:
    shown = plain_text(hint) if hint else None
    return part("input", label=label, element=element, block_id=block_id, optional=optional, hint=shown)


def modal(
    callback: Callback, title: str, blocks: Iterable[JsonObject], *, metadata: str = "", submit: str | None = None
) -> JsonObject:
    return part(
        "modal",
        callback_id=callback.value,
        title=plain_text(title),
        submit=plain_text(submit) if submit else None,
        close=plain_text(words.BACK if submit else words.CLOSE),
        blocks=[*blocks],
        private_metadata=metadata or None,
    )
