"""The form that "Sign in…" opens: where a person signs in, and what they give. What they type is never shown again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from slack_sdk.models.blocks import Block, InputBlock, PlainTextInputElement

from blocks import words
from blocks.card_text import heading
from blocks.content import WHOLE, content
from blocks.fields import ACTION, text_in
from blocks.ids import Callback, Ref
from blocks.kit import JsonObject, actions, header, link_button, modal, plain_text
from blocks.rich import Piece, code, line, rich
from blocks.text import INPUT, LINK
from blocks.view import CardView


class SignInField(Enum):
    """What is asked for, by field name."""

    ADDRESS = "address"
    KEY = "key"
    TOKEN = "token"  # noqa: S105  (a field's name)
    USERNAME = "username"
    PASSWORD = "password"  # noqa: S105  (a field's name)


_LABELS = {
    SignInField.ADDRESS: words.SIGN_IN_ADDRESS,
    SignInField.KEY: words.SIGN_IN_KEY,
    SignInField.TOKEN: words.SIGN_IN_TOKEN,
    SignInField.USERNAME: words.SIGN_IN_USER,
    SignInField.PASSWORD: words.SIGN_IN_PASSWORD,
}


@dataclass(frozen=True)
class Entered:
    """What was typed, by field. No `repr` shows it."""

    values: dict[SignInField, str] = field(default_factory=dict, repr=False)
    errors: dict[str, str] = field(default_factory=dict)


def sign_in_form(view: CardView, entries: tuple[SignInField, ...], url: str | None, redirect: str) -> JsonObject:
    """`url`: the address to sign in at, if there is one. `redirect`: where the browser ends up."""
    shown = content(view, WHOLE)
    blocks: list[Block] = [header(heading(view), "title"), rich([*shown.intro, *shown.arguments], "what")]
    lines: list[Piece] = []
    if url is not None:
        pasted = SignInField.ADDRESS in entries
        lines.append(line(words.SIGN_IN_PASTE, where=code(redirect, INPUT)) if pasted else line(words.SIGN_IN_HERE))
        fits = len(url) <= LINK
        lines += [] if fits else [line(words.SIGN_IN_LONG)]
        blocks.append(rich(lines, "how"))
        blocks += actions([link_button(words.SIGN_IN, url, style="primary")], "link") if fits else []
    blocks += [_input(entry) for entry in entries]
    blocks.append(rich([line(words.SIGN_IN_KEPT)], "kept"))
    submit = words.SUBMIT_SIGN_IN if entries else None
    close = words.CANCEL if entries else words.CLOSE
    ref = Ref(view.id, view.revision)
    return modal(Callback.SIGN_IN, words.TITLE_SIGN_IN, blocks, metadata=ref.encode(), submit=submit, close=close)


def read_entered(values: Mapping[str, object], entries: tuple[SignInField, ...]) -> Entered:
    found = {entry: text_in(values, entry.value) for entry in entries}
    errors = {entry.value: words.FIELD_REQUIRED for entry, text in found.items() if not text}
    return Entered(errors=errors) if errors else Entered(found)


def _input(entry: SignInField) -> InputBlock:
    element = PlainTextInputElement(action_id=ACTION, max_length=INPUT, focus_on_load=False)
    return InputBlock(label=plain_text(_LABELS[entry]), element=element, block_id=entry.value)
