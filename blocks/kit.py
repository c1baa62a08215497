"""Builds the parts of messages and views with slack_sdk's models, which also check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ConfirmObject,
    ContextBlock,
    DividerBlock,
    HeaderBlock,
    InteractiveElement,
    MarkdownTextObject,
    Option,
    OverflowMenuElement,
    PlainTextObject,
)
from slack_sdk.models.views import View

from blocks import words
from blocks.ids import Action, Callback
from blocks.model_json import JsonObject as JsonObject
from blocks.model_json import as_json
from blocks.rich import Line, Piece, markup, text
from blocks.text import BUTTON, CONFIRM_TEXT, CONFIRM_TITLE, HEADER, MESSAGE_TEXT, fit, plain


@dataclass(frozen=True, slots=True)
class Message:
    """The text and blocks for `chat.postMessage` and `chat.update`, without the place. It always has both."""

    text: str
    blocks: tuple[JsonObject, ...]
    metadata: JsonObject = field(default_factory=dict)

    def payload(self) -> JsonObject:
        payload: JsonObject = {"text": self.text, "blocks": list(self.blocks)}
        return payload | {"metadata": self.metadata} if self.metadata else payload


def blocks_json(blocks: Sequence[Block]) -> tuple[JsonObject, ...]:
    """The blocks as JSON; slack_sdk raises on what Slack would refuse."""
    return tuple(map(as_json, blocks))


def message(pieces: Sequence[Piece], *blocks: Block) -> Message:
    """A message whose text says these pieces."""
    return Message(text([], pieces, [], MESSAGE_TEXT), blocks_json(blocks))


def plain_text(text: str) -> PlainTextObject:
    """Text in which nothing has a special meaning, not even `:emoji:`."""
    return PlainTextObject(text=text, emoji=False)


def header(text: str, block_id: str) -> HeaderBlock:
    return HeaderBlock(text=plain_text(fit(text, HEADER).text), block_id=block_id)


_LINES_IN_CONTEXT = 10


def small_print(lines: Sequence[Line], block_id: str) -> list[Block]:
    """Secondary facts, in grey. Supplied text is made safe here too."""
    elements = [MarkdownTextObject(text=markup(line.spans, 120)) for line in lines]
    return [ContextBlock(elements=elements[:_LINES_IN_CONTEXT], block_id=block_id)] if elements else []


def divider(block_id: str) -> DividerBlock:
    return DividerBlock(block_id=block_id)


def actions(elements: Sequence[InteractiveElement], block_id: str) -> list[Block]:
    return [ActionsBlock(elements=list(elements), block_id=block_id)] if elements else []


def confirm(texts: tuple[str, str], verb: str, style: str | None = None) -> ConfirmObject:
    title, text = texts
    return ConfirmObject(
        title=plain_text(fit(title, CONFIRM_TITLE).text),
        text=plain_text(fit(text, CONFIRM_TEXT).text),
        confirm=plain_text(verb),
        deny=plain_text(words.GO_BACK),
        style=style,
    )


def button(
    action: Action,
    label: str,
    value: str | None = None,
    *,
    about: str | None = None,
    style: str | None = None,
    sure: ConfirmObject | None = None,
) -> ButtonElement:
    """A button. `about` is the tool that it acts on, for screen readers."""
    spoken = None
    if about is not None:
        spoken = fit(words.LABEL.format(verb=label, tool=plain(about, BUTTON)), BUTTON).text
    return ButtonElement(
        text=plain_text(label),
        action_id=action.value,
        value=value,
        style=style,
        confirm=sure,
        accessibility_label=spoken,
    )


def menu(options: Sequence[tuple[str, str]]) -> OverflowMenuElement:
    """The menu behind "⋯": labels and values."""
    return OverflowMenuElement(
        action_id=Action.MORE.value, options=[Option(value=value, text=plain_text(label)) for label, value in options]
    )


def link_button(label: str, url: str) -> ButtonElement:
    return ButtonElement(text=plain_text(label), action_id=Action.LINK.value, url=url)


def modal(
    callback: Callback,
    title: str,
    blocks: Sequence[Block],
    *,
    metadata: str = "",
    submit: str | None = None,
    close: str = words.CLOSE,
) -> JsonObject:
    view = View(
        type="modal",
        callback_id=callback.value,
        title=plain_text(title),
        submit=plain_text(submit) if submit else None,
        close=plain_text(close),
        blocks=list(blocks),
        private_metadata=metadata or None,
    )
    return as_json(view)


def home(blocks: Sequence[Block]) -> JsonObject:
    view = View(type="home", callback_id=Callback.HOME.value, blocks=list(blocks))
    return as_json(view)


def label(text: str, limit: int) -> PlainTextObject:
    return plain_text(plain(text, limit))
