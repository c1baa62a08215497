"""Block Kit's blocks: what each may contain, on which surface, and the rules about all blocks together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from bot.sandbox.blockkit.elements import (
    ANY_TEXT,
    BUTTON,
    ELEMENTS,
    IMAGE,
    IN_ACTIONS,
    IN_INPUT,
    IN_SECTION,
    interactive,
)
from bot.sandbox.blockkit.schema import (
    Check,
    Complaints,
    Shape,
    anything,
    array,
    boolean,
    choice,
    complaint,
    kinds,
    string,
    text,
    whole,
)
from runtime.jsontypes import Json, JsonObject, as_text, objects

Surface = Literal["message", "modal", "home"]
LONGEST_TABLE = 10_000
MOST_BLOCKS: dict[Surface, int] = {"message": 50, "modal": 100, "home": 100}

_BLOCK_ID = string(255)
_STYLE = anything
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
_rich_block = kinds({"rich_text": Shape(RICH_TEXT, {"block_id": _BLOCK_ID})})


def _block(required: dict[str, Check] | None = None, also: object = None, **optional: Check) -> Shape:
    rule = also if callable(also) else None
    return Shape(required or {}, {"block_id": _BLOCK_ID, **optional}, rule)


def _requires_any(*names: str) -> object:
    def check(block: JsonObject, place: str) -> Complaints:
        if not any(name in block for name in names):
            yield complaint(f"one of {', '.join(names)} is required", place)

    return check


def _requires_one(one: str, other: str) -> object:
    def check(block: JsonObject, place: str) -> Complaints:
        if (one in block) == (other in block):
            yield complaint(f"exactly one of {one} and {other} is required", place)

    return check


def _foldable(block: JsonObject, place: str) -> Complaints:
    if "title" not in block and "rich_text_title" not in block:
        yield complaint("one of title and rich_text_title is required", place)
    if block.get("default_collapsed") is True and block.get("is_collapsible") is not True:
        yield complaint("default_collapsed requires is_collapsible", place)


_task = Shape(
    {"task_id": string(255), "title": string(256)},
    {
        "block_id": _BLOCK_ID, "type": choice("task_card"), "details": _rich_block, "output": _rich_block,
        "status": choice("pending", "in_progress", "complete", "error"),
        "sources": array(kinds({"url": Shape({"url": string(3000), "text": string(255)})}), 50),
    },
)  # fmt: skip


def _unique_tasks(block: JsonObject, place: str) -> Complaints:
    for name in _duplicates(as_text(task.get("task_id")) for task in objects(block.get("tasks"))):
        yield complaint(f"task_id already exists: {name}", f"{place}/tasks")


_card = _block(
    also=_requires_any("hero_image", "title", "actions", "body"),
    hero_image=IMAGE, icon=IMAGE, slack_icon=anything, title=text(150, *ANY_TEXT), subtitle=text(150, *ANY_TEXT),
    body=text(200, *ANY_TEXT), subtext=text(200, *ANY_TEXT), actions=array(BUTTON, 5),
)  # fmt: skip
_cell = kinds(
    {
        "raw_text": Shape({"text": string(3000)}),
        "raw_number": Shape({"value": anything}, {"text": string(255)}),
        "rich_text": Shape(RICH_TEXT, {"block_id": _BLOCK_ID}),
    }
)
_COLUMN = Shape({}, {"align": choice("left", "center", "right"), "is_wrapped": boolean})
_context = kinds(
    {
        "image": ELEMENTS["image"],
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
    "context_actions": _block({"elements": array(kinds(ELEMENTS, "feedback_buttons", "icon_button"), 5)}),
    "input": _block(
        {"label": text(2000), "element": IN_INPUT}, hint=text(2000), optional=boolean, dispatch_action=boolean
    ),
    "image": _block(
        {"alt_text": string(2000)}, _requires_one("image_url", "slack_file"),
        image_url=string(3000), slack_file=anything, title=text(2000),
    ),
    "rich_text": _block(RICH_TEXT),
    "markdown": _block({"text": string(12_000)}),
    "table": _block({"rows": array(array(_cell, 20), 100)}, column_settings=array(_COLUMN, 20)),
    "file": _block({"external_id": string(255), "source": choice("remote")}),
    "video": _block(
        {"alt_text": string(2000), "title": text(200), "thumbnail_url": string(3000), "video_url": string(3000)},
        author_name=string(50), description=text(200), provider_icon_url=string(3000), provider_name=string(255),
        title_url=string(3000),
    ),
    "plan": _block({"title": string(256)}, _unique_tasks, tasks=array(_task, 50)),
    "task_card": _task,
    "card": _card,
    "carousel": _block({"elements": array(kinds({"card": _card}), 10)}),
    "alert": _block({"text": text(200, *ANY_TEXT)}, level=choice("default", "info", "warning", "error", "success")),
}  # fmt: skip
_IN_CONTAINER = (
    "actions", "context", "divider", "file", "header", "image", "input", "rich_text", "section", "table", "video",
)  # fmt: skip
BLOCKS["container"] = _block(
    {"child_blocks": array(kinds(BLOCKS, *_IN_CONTAINER), 10)}, _foldable,
    title=text(150), rich_text_title=_rich_block, subtitle=text(150), icon=IMAGE, is_collapsible=boolean,
    default_collapsed=boolean, has_header_divider=boolean, width=choice("narrow", "standard", "wide", "full"),
)  # fmt: skip

_MESSAGES_ONLY = {"markdown", "plan", "task_card", "container", "table", "card", "carousel", "context_actions", "file"}
_ALLOWED: dict[Surface, tuple[str, ...]] = {
    "message": tuple(name for name in BLOCKS if name != "alert"),
    "modal": tuple(name for name in BLOCKS if name not in _MESSAGES_ONLY),
    "home": tuple(name for name in BLOCKS if name not in {*_MESSAGES_ONLY, "alert"}),
}


def complaints(blocks: Json, surface: Surface, place: str = "/blocks", refused: Collection[str] = ()) -> Complaints:
    """Everything that Slack would refuse about these blocks on that surface. `refused`: types that it does not know."""
    allowed = (name for name in _ALLOWED[surface] if name not in refused)
    yield from array(kinds(BLOCKS, *allowed), MOST_BLOCKS[surface], 0)(blocks, place)
    found = objects(blocks)
    every = [one for block in found for one in (block, *objects(block.get("child_blocks")))]
    yield from _unique_ids(every, place)
    tables = [block for block in every if block.get("type") == "table"]
    if len(tables) > 1:
        yield complaint("only one table is allowed in a message", place)
    if sum(map(_count_characters, tables)) > LONGEST_TABLE:
        yield complaint(f"a table must have less than {LONGEST_TABLE + 1} characters", place)
    if surface == "message" and {"plan", "task_card"} <= {as_text(block.get("type")) for block in found}:
        yield complaint("plan and task_card blocks can't be in one message", place)
    elements = [element for block in found for element in interactive(block)]
    if surface != "modal" and any(element.get("type") == "file_input" for element in elements):
        yield complaint("unsupported type: file_input", place)
    if sum(element.get("focus_on_load") is True for element in elements) > 1:
        yield complaint("only one element may have focus_on_load", place)


def _count_characters(value: Json) -> int:
    """The number of characters in a table's cells."""
    if isinstance(value, list):
        return sum(map(_count_characters, value))
    if not isinstance(value, dict):
        return 0
    inside = sum(_count_characters(value.get(name)) for name in ("rows", "elements"))
    return inside + len(as_text(value.get("text")))


def _duplicates(ids: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(ids).items() if name and count > 1]


def _unique_ids(blocks: Sequence[JsonObject], place: str) -> Complaints:
    for name in _duplicates(as_text(block.get("block_id")) for block in blocks):
        yield complaint(f"block_id already exists: {name}", place)
    for index, block in enumerate(blocks):
        for name in _duplicates(as_text(element.get("action_id")) for element in interactive(block)):
            yield complaint(f"action_id already exists in this block: {name}", f"{place}/{index}")
