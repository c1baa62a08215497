"""Block Kit's blocks: what each may contain, on which surface, and the rules about all blocks together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from adk_confirm.sandbox.blockkit.elements import (
    ANY_TEXT,
    IN_ACTIONS,
    IN_INPUT,
    IN_SECTION,
    interactive,
)
from adk_confirm.sandbox.blockkit.schema import (
    Check,
    Complaints,
    Shape,
    array,
    boolean,
    choice,
    complaint,
    kinds,
    string,
    text,
    whole,
)
from adk_confirm.sandbox.reading import Json, JsonObject, as_text, objects

Surface = Literal["message", "modal", "home"]
MOST_BLOCKS: dict[Surface, int] = {"message": 50, "modal": 100, "home": 100}

_BLOCK_ID = string(255)
_STYLE = Shape({}, dict.fromkeys(("bold", "italic", "strike", "code", "underline"), boolean))
_leaf: dict[str, Shape] = {
    "text": Shape({"text": string(40_000)}, {"style": _STYLE}),
    "link": Shape({"url": string(3000)}, {"text": string(40_000), "unsafe": boolean, "style": _STYLE}),
    "user": Shape({"user_id": string(255)}, {"style": _STYLE}),
    "usergroup": Shape({"usergroup_id": string(255)}, {"style": _STYLE}),
    "channel": Shape({"channel_id": string(255)}, {"style": _STYLE}),
    "team": Shape({"team_id": string(255)}, {"style": _STYLE}),
    "emoji": Shape({"name": string(255)}, {"unicode": string(255), "skin_tone": whole(1, 6), "style": _STYLE}),
    "broadcast": Shape({"range": choice("here", "channel", "everyone")}, {"style": _STYLE}),
    "date": Shape(
        {"timestamp": whole(0, 10**11), "format": string(255)}, {"fallback": string(255), "url": string(3000)}
    ),
    "color": Shape({"value": string(16)}, {"style": _STYLE}),
}
_leaves = array(kinds(_leaf), 10_000, 0)
_section = Shape({"elements": _leaves})
_rich: dict[str, Shape] = {
    "rich_text_section": _section,
    "rich_text_preformatted": Shape(
        {"elements": array(kinds(_leaf, "text", "link"), 10_000, 0)}, {"border": whole(0, 1), "language": string(255)}
    ),
    "rich_text_quote": Shape({"elements": _leaves}, {"border": whole(0, 1)}),
    "rich_text_list": Shape(
        {"elements": array(kinds({"rich_text_section": _section}), 10_000, 0), "style": choice("bullet", "ordered")},
        {"indent": whole(0, 8), "border": whole(0, 1), "offset": whole(0, 10**6)},
    ),
}
RICH_TEXT: dict[str, Check] = {"elements": array(kinds(_rich), 10_000, 0)}


def _block(required: dict[str, Check] | None = None, also: object = None, **optional: Check) -> Shape:
    rule = also if callable(also) else None
    return Shape(required or {}, {"block_id": _BLOCK_ID, **optional}, rule)


def _requires_any(*names: str) -> object:
    def check(block: JsonObject, place: str) -> Complaints:
        if not any(name in block for name in names):
            yield complaint(f"one of {', '.join(names)} is required", place)

    return check


_context = kinds(
    {
        "plain_text": Shape({"text": string(3000)}, {"emoji": boolean}),
        "mrkdwn": Shape({"text": string(3000)}, {"verbatim": boolean}),
    }
)

BLOCKS: dict[str, Shape] = {
    "section": _block(
        also=_requires_any("text", "fields"),
        text=text(3000, *ANY_TEXT), fields=array(text(2000, *ANY_TEXT), 10), accessory=IN_SECTION, expand=boolean,
    ),
    "header": _block({"text": text(150)}),
    "divider": _block(),
    "context": _block({"elements": array(_context, 10)}),
    "actions": _block({"elements": array(IN_ACTIONS, 25)}),
    "input": _block(
        {"label": text(2000), "element": IN_INPUT}, hint=text(2000), optional=boolean
    ),
    "rich_text": _block(RICH_TEXT),
    "markdown": _block({"text": string(12_000)}),
}  # fmt: skip
"""The blocks that the bot uses. Slack has more; here they are refused."""

_ALLOWED: dict[Surface, tuple[str, ...]] = {
    "message": tuple(BLOCKS),
    "modal": tuple(name for name in BLOCKS if name != "markdown"),
    "home": tuple(name for name in BLOCKS if name != "markdown"),
}


def complaints(blocks: Json, surface: Surface, place: str = "/blocks") -> Complaints:
    """Everything that Slack would refuse about these blocks on that surface."""
    yield from array(kinds(BLOCKS, *_ALLOWED[surface]), MOST_BLOCKS[surface], 0)(blocks, place)
    found = objects(blocks)
    yield from _unique_ids(found, place)
    elements = [element for block in found for element in interactive(block)]
    if sum(element.get("focus_on_load") is True for element in elements) > 1:
        yield complaint("only one element may have focus_on_load", place)


def _duplicates(ids: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(ids).items() if name and count > 1]


def _unique_ids(blocks: Sequence[JsonObject], place: str) -> Complaints:
    for name in _duplicates(as_text(block.get("block_id")) for block in blocks):
        yield complaint(f"block_id already exists: {name}", place)
    for index, block in enumerate(blocks):
        for name in _duplicates(as_text(element.get("action_id")) for element in interactive(block)):
            yield complaint(f"action_id already exists in this block: {name}", f"{place}/{index}")
