"""Slack's limits, held strictly: every payload of the package has to pass, whatever went into it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pydantic import JsonValue

Payload = Mapping[str, JsonValue]

SURFACES = {"message", "modal", "home"}
EVERYWHERE = {"header", "rich_text", "context", "actions", "divider"}
BLOCKS_IN = {"message": EVERYWHERE, "home": EVERYWHERE, "modal": EVERYWHERE | {"input"}}
MOST_BLOCKS = {"message": 50, "modal": 100, "home": 100}
RICH_BYTES, MESSAGE_BYTES, VIEW_BYTES = 24_000, 30_000, 250_000


def check(payload: Payload, surface: str) -> None:
    """Raises an AssertionError that names the first thing Slack would refuse."""
    assert surface in SURFACES
    blocks = _list(payload.get("blocks"))
    assert 1 <= len(blocks) <= MOST_BLOCKS[surface], f"{len(blocks)} blocks"
    ids = [block.get("block_id") for block in blocks]
    assert len(set(map(str, ids))) == len(ids), "a block_id stands twice"
    for block in blocks:
        _block(block, surface)
    for text in strings(payload):
        text.encode()  # a lone surrogate can't be sent
        assert "\x00" not in text
    if surface == "message":
        _message(payload, blocks)
    else:
        _view(payload, surface, blocks)


def units(text: str) -> int:
    return max(len(text), len(text.encode("utf-16-le")) // 2)


def strings(value: JsonValue | Payload) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


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


def _message(payload: Payload, blocks: Sequence[Payload]) -> None:
    text = payload["text"]
    assert isinstance(text, str)
    assert 1 <= units(text) <= 4000, f"a text of {units(text)}"
    rich = sum(_bytes(block) for block in blocks if block["type"] == "rich_text")
    assert rich <= RICH_BYTES, f"{rich} bytes of rich text"
    assert sum(map(_bytes, blocks)) <= MESSAGE_BYTES
    if metadata := payload.get("metadata"):
        assert set(_dict(metadata)) == {"event_type", "event_payload"}
    assert set(payload) <= {"text", "blocks", "metadata"}


def _view(payload: Payload, surface: str, blocks: Sequence[Payload]) -> None:
    assert payload["type"] == surface
    _length(payload.get("callback_id"), 255)
    _length(payload.get("private_metadata", "-"), 3000)
    assert _bytes(payload) <= VIEW_BYTES
    focused = [one for one in elements(payload) if one.get("focus_on_load")]
    assert len(focused) <= 1
    for part in ("title", "submit", "close"):
        if part in payload:
            assert surface == "modal"
            _plain(payload[part], 24)
    if surface == "modal":
        assert "title" in payload
        assert "submit" in payload or not any(block["type"] == "input" for block in blocks)


def _block(block: Payload, surface: str) -> None:
    kind = block["type"]
    assert kind in BLOCKS_IN[surface], f"{kind} in a {surface}"
    _length(block.get("block_id"), 255)
    if kind == "header":
        _plain(block["text"], 150)
    elif kind == "context":
        parts = _list(block["elements"])
        assert 1 <= len(parts) <= 10
        for part in parts:
            assert part["type"] in ("mrkdwn", "plain_text")
            _length(part["text"], 2000)
    elif kind == "actions":
        parts = _list(block["elements"])
        assert 1 <= len(parts) <= 25
        action_ids = [part["action_id"] for part in parts]
        assert len(set(map(str, action_ids))) == len(action_ids), "an action_id stands twice"
        for part in parts:
            _element(part)
    elif kind == "input":
        _plain(block["label"], 2000)
        if "hint" in block:
            _plain(block["hint"], 2000)
        _element(_dict(block["element"]))
    elif kind == "rich_text":
        assert block["elements"]
        _rich(block["elements"])


def _rich(value: JsonValue) -> None:
    for part in _list(value):
        if "elements" in part:
            assert part["elements"], f"an empty {part['type']}"
            _rich(part["elements"])
        elif part["type"] == "text":
            assert part["text"], "an empty text"


def _element(element: Payload) -> None:
    _length(element["action_id"], 255)
    if "placeholder" in element:
        _plain(element["placeholder"], 150)
    if "confirm" in element:
        _confirm(_dict(element["confirm"]))
    match element["type"]:
        case "button":
            _plain(element["text"], 75)
            assert units(cast("str", _dict(element["text"])["text"])) <= 30, "a button's text would be cut"
            _length(element.get("value", "-"), 2000)
            _length(element.get("accessibility_label", "-"), 75)
            _length(element.get("url", "-"), 3000)
            assert element.get("style", "primary") in ("primary", "danger")
        case "static_select":
            _options(element, 100)
        case "radio_buttons" | "checkboxes":
            _options(element, 10)
        case "overflow":
            _options(element, 5)
        case "plain_text_input":
            limit = element.get("max_length", 3000)
            assert isinstance(limit, int)
            assert 1 <= limit <= 3000
            _length(element.get("initial_value", "-"), limit)
        case "number_input":
            _number_input(element)
        case "datepicker" | "datetimepicker":
            pass
        case other:
            raise AssertionError(f"an element of type {other}")


def _options(element: Payload, most: int) -> None:
    options = _list(element["options"])
    assert 1 <= len(options) <= most
    for option in options:
        _plain(option["text"], 75)
        _length(option["value"], 75)
    values = [option["value"] for option in options]
    assert len(set(map(str, values))) == len(values)
    if "initial_option" in element:
        assert element["initial_option"] in options


def _number_input(element: Payload) -> None:
    assert isinstance(element["is_decimal_allowed"], bool)
    numbers = {key: element.get(key) for key in ("initial_value", "min_value", "max_value")}
    for text in numbers.values():
        assert text is None or (isinstance(text, str) and text.lstrip("-").replace(".", "", 1).isdigit())
    value, least, most = (None if text is None else float(str(text)) for text in numbers.values())
    assert value is None or least is None or value >= least
    assert value is None or most is None or value <= most
    assert element["is_decimal_allowed"] or "." not in str(element.get("initial_value"))


def _confirm(confirm: Payload) -> None:
    _plain(confirm["title"], 100)
    _plain(confirm["text"], 300)
    _plain(confirm["confirm"], 30)
    _plain(confirm["deny"], 30)


def _plain(value: JsonValue, limit: int) -> None:
    text = _dict(value)
    assert text["type"] == "plain_text"
    assert text["emoji"] is False
    _length(text["text"], limit)


def _length(value: JsonValue, limit: int) -> None:
    assert isinstance(value, str)
    assert 1 <= units(value) <= limit, f"{units(value)} of {limit}: {value[:60]!r}"


def _bytes(value: JsonValue | Payload) -> int:
    return len(json.dumps(value))


def _list(value: JsonValue) -> list[Payload]:
    assert isinstance(value, list)
    return [_dict(item) for item in value]


def _dict(value: JsonValue | Payload) -> Payload:
    assert isinstance(value, Mapping)
    return value
