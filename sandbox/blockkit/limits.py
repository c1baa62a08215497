"""The limits on whole messages, metadata and views, refused with Slack's own codes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from adk_confirm.sandbox.blockkit.blocks import Surface, complaints
from adk_confirm.sandbox.blockkit.schema import Check, Shape, anything, choice, string, text
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, objects
from adk_confirm.sandbox.refusals import ApiRefusal

LONGEST_TEXT = 40_000
LONGEST_UPDATE = 4_000
LONGEST_MARKDOWN = 12_000
LONGEST_RICH_TEXT = 24_000
LARGEST_METADATA = 8_000
LARGEST_VIEW = 250_000

_METADATA = Shape({"event_type": string(255), "event_payload": anything}, {"entities": anything})
_VIEW: dict[str, Check] = {
    "private_metadata": string(3000, 0),
    "callback_id": string(255, 0),
}
_MODAL = Shape(
    {"type": choice("modal"), "title": text(24), "blocks": anything},
    {"submit": text(24), "close": text(24), **_VIEW},
)
_HOME = Shape({"type": choice("home"), "blocks": anything}, _VIEW)


def check_text(message: str, *, updating: bool) -> str:
    """The text as Slack keeps it. A post that is too long is cut, an update is refused."""
    if updating and len(message) > LONGEST_UPDATE:
        raise ApiRefusal("msg_too_long")
    return message[:LONGEST_TEXT]


def check_blocks(blocks: Json) -> list[JsonObject]:
    """A message's blocks, if Slack would accept them."""
    found = list(complaints(blocks, "message"))
    if found:
        raise ApiRefusal("invalid_blocks", messages=found, extra={"errors": list(found)})
    kept = objects(blocks)
    markdown = sum(len(as_text(block.get("text"))) for block in kept if block.get("type") == "markdown")
    rich = sum(len(part) for block in kept if block.get("type") == "rich_text" for part in _texts(block))
    if markdown > LONGEST_MARKDOWN or rich > LONGEST_RICH_TEXT:
        raise ApiRefusal("msg_blocks_too_long")
    return kept


def _texts(element: JsonObject) -> Iterator[str]:
    yield as_text(element.get("text"))
    for inner in objects(element.get("elements")):
        yield from _texts(inner)


def check_metadata(metadata: Json) -> JsonObject:
    found = as_object(metadata)
    if not found or list(_METADATA(found, "/metadata")):
        raise ApiRefusal("invalid_metadata_format", messages=list(_METADATA(metadata, "/metadata")))
    if not isinstance(found["event_payload"], dict):
        raise ApiRefusal("invalid_metadata_schema")
    if len(json.dumps(found, ensure_ascii=False).encode()) > LARGEST_METADATA:
        raise ApiRefusal("metadata_too_large")
    return found


def check_view(view: Json, surface: Surface) -> JsonObject:
    """A view that Slack would accept. What a person entered is not part of it."""
    found = as_object(view)
    if len(json.dumps(found, ensure_ascii=False).encode()) > LARGEST_VIEW:
        raise ApiRefusal("view_too_large")
    shape = _MODAL if surface == "modal" else _HOME
    wrong = [*shape(view, "/view"), *complaints(found.get("blocks"), surface, "/view/blocks")]
    if surface == "modal" and "submit" not in found and _has_input(objects(found.get("blocks"))):
        wrong.append("[ERROR] missing required field: submit, as the view has an input [json-pointer:/view]")
    if wrong:
        raise ApiRefusal("invalid_arguments", messages=wrong)
    return found


def _has_input(blocks: Sequence[JsonObject]) -> bool:
    return any(block.get("type") == "input" for block in blocks)
