"""Slack's limits, as the sandbox checks them, and what the package holds itself to beyond them: every payload has to
pass, whatever went into it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from adk_confirm.sandbox.blockkit.blocks import Surface
from adk_confirm.sandbox.blockkit.limits import check_blocks, check_metadata, check_view

Payload = Mapping[str, JsonValue]

BLOCKS = {"header", "rich_text", "context", "actions", "divider"}
RICH_BYTES, MESSAGE_BYTES, VIEW_BYTES = 24_000, 30_000, 250_000
TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
ACTING = {"button", "static_select", "radio_buttons", "checkboxes", "overflow", "plain_text_input", "number_input"}


def check(payload: Payload, surface: str) -> None:
    """Raises at the first thing that Slack would refuse."""
    blocks = _list(payload.get("blocks"))
    assert blocks
    for text in strings(payload):
        text.encode()  # a lone surrogate can't be sent
        assert "\x00" not in text
    counted = json.loads(TWO_UNITS.sub("xx", json.dumps(payload, ensure_ascii=False)))  # in units, as JavaScript does
    if surface == "message":
        check_blocks(counted["blocks"])
        check_metadata(counted.get("metadata", {"event_type": "x", "event_payload": {}}))
        assert 1 <= len(counted["text"]) <= 4000, f"a text of {len(counted['text'])}"
        assert sum(_bytes(block) for block in blocks if block["type"] == "rich_text") <= RICH_BYTES
        assert sum(map(_bytes, blocks)) <= MESSAGE_BYTES
        assert set(payload) <= {"text", "blocks", "metadata"}
    else:
        check_view(counted, cast("Surface", surface))
        assert payload["callback_id"]
        assert _bytes(payload) <= VIEW_BYTES
    for block in blocks:
        assert block["type"] in BLOCKS | ({"input"} if surface == "modal" else set()), block["type"]
        assert block["block_id"]
    for element in elements(payload):
        assert element["type"] in ACTING, element["type"]
        assert element["action_id"]
    for part in _parts(payload.get("blocks")):
        assert part.get("elements", "some"), f"an empty {part['type']}"
        assert part.get("type") != "plain_text" or part["emoji"] is False
        if part.get("type") == "button":
            assert units(labels(part)[0]) <= 30, "a button's text would be cut"


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def strings(value: JsonValue | Payload) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from strings(inner)


def _parts(value: JsonValue) -> Iterator[Payload]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


def elements(payload: Payload) -> Iterator[Payload]:
    """Everything interactive."""
    for block in _list(payload.get("blocks")):
        if block["type"] == "actions":
            yield from _list(block["elements"])
        elif block["type"] == "input":
            yield _dict(block["element"])


def options(element: Payload) -> list[JsonValue]:
    """The values of a menu behind "⋯"."""
    return [option["value"] for option in _list(element["options"])] if element["type"] == "overflow" else []


def labels(element: Payload) -> list[str]:
    """What a control says; of a menu, what its entries say."""
    texts = [option["text"] for option in _list(element["options"])] if "options" in element else [element["text"]]
    return [str(_dict(text)["text"]) for text in texts]


def _bytes(value: JsonValue | Payload) -> int:
    return len(json.dumps(value))


def _list(value: JsonValue) -> list[Payload]:
    assert isinstance(value, list)
    return [_dict(item) for item in value]


def _dict(value: JsonValue | Payload) -> Payload:
    assert isinstance(value, Mapping)
    return value
