"""Blocks that not every workspace accepts yet: `table`, `container` and `alert`.

A block that could be one of these is drawn in the old form, and carries the newer form under the key `newer`. Before
sending, `newest_form` keeps one of the two. Slack accepts no block with that key, so forgetting this is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import cast

from pydantic import JsonValue
from slack_sdk.models.blocks import Block, RichTextBlock

from blocks.model_json import JsonObject, as_json
from blocks.rich import Line, Piece, Supplied, TableRow, TextSpan, elements, markup, rich
from blocks.text import units

_KEY = "newer"
LONGEST_ALERT = 200


class Newer(StrEnum):
    """The names are Slack's. Each is sent in one place only: tables and containers in messages, alerts in modals."""

    TABLE = "table"
    CONTAINER = "container"
    ALERT = "alert"


class AlertLevel(StrEnum):
    """How urgent an alert is. The values are Slack's."""

    INFO = "info"
    WARNING = "warning"
    SUCCESS = "success"


Takes = Callable[[Newer], bool]


def accept_nothing(kind: Newer) -> bool:  # noqa: ARG001 - the shape of `Takes`
    """What a workspace takes that accepts none of the newer blocks."""
    return False


def newest_form(blocks: Sequence[JsonObject], takes: Takes) -> list[JsonObject]:
    """The blocks as they are sent: in the newer form if the workspace accepts it."""
    return [block for one in blocks for block in _newest_accepted(one, takes)]


def newest_view(view: JsonObject, takes: Takes) -> JsonObject:
    """The same for a modal."""
    return {**view, "blocks": cast("JsonValue", newest_form(cast("list[JsonObject]", view["blocks"]), takes))}


def kinds(blocks: Sequence[JsonObject]) -> frozenset[Newer]:
    """The newer blocks among those that are sent."""
    return frozenset(Newer(str(block["type"])) for block in blocks if block.get("type") in set(Newer))


def _newest_accepted(block: JsonObject, takes: Takes) -> Iterator[JsonObject]:
    newer = cast("list[JsonObject]", block.get(_KEY, []))
    if newer and all(map(takes, kinds(newer))):
        yield from newer
    else:
        yield {key: value for key, value in block.items() if key != _KEY}


class _Either(Block):
    def __init__(self, today: Block, newer: Sequence[JsonObject]) -> None:
        super().__init__(type=today.type or "", block_id=today.block_id)
        self._today, self._newer = today, newer

    def to_dict(self, *args: object) -> dict[str, object]:  # noqa: ARG002 - the SDK's signature
        return {**as_json(self._today), _KEY: list(self._newer)}


# -- an alert


def alert(today: Block, said: Line, level: AlertLevel) -> Block:
    """A sentence in a box of its own, in a modal. One that is too long for an alert stays as it is."""
    text = markup(said.spans)
    if units(text) > LONGEST_ALERT:
        return today
    return _Either(
        today,
        [
            {
                "type": Newer.ALERT.value,
                "block_id": today.block_id,
                "text": {"type": "mrkdwn", "text": text},
                "level": level.value,
            }
        ],
    )


# -- a container


def fold(pieces: Sequence[Piece], title: str, block_id: str) -> Block:
    """Content that a reader can unfold, under our own title."""
    return _Either(
        rich(pieces, block_id),
        [
            {
                "type": Newer.CONTAINER.value,
                "block_id": block_id,
                "title": {"type": "plain_text", "text": title, "emoji": False},
                "is_collapsible": True,
                "default_collapsed": True,
                "child_blocks": [as_json(rich(pieces, f"{block_id}.in"))],
            }
        ],
    )


# -- a table


def as_table(pieces: Sequence[Piece], block_id: str) -> Block:
    """The pieces as one block. In its newer form, the first rows that can form a table are a table."""
    today = rich(pieces, block_id)
    rows = _first_table(pieces)
    if not rows:
        return today
    at = next(index for index, piece in enumerate(pieces) if piece is rows[0])
    before, after = pieces[:at], pieces[at + len(rows) :]
    newer = [as_json(rich(before, block_id))] if before else []
    newer.append(_table(rows, f"{block_id}.table"))
    newer += [as_json(rich(after, f"{block_id}.after"))] if after else []
    return _Either(today, newer)


def has_table(pieces: Sequence[Piece]) -> bool:
    return bool(_first_table(pieces))


def _first_table(pieces: Sequence[Piece]) -> list[TableRow]:
    rows: list[TableRow] = []
    for piece in pieces:
        if isinstance(piece, TableRow) and (not rows or piece.columns == rows[0].columns):
            rows.append(piece)
        elif rows:
            break
    return rows


def _table(rows: Sequence[TableRow], block_id: str) -> JsonObject:
    """A table whose cells wrap, so that every value is completely visible."""
    columns = rows[0].columns
    head = [_cell((Supplied(column.name, bold=True),)) for column in columns]
    settings: list[JsonValue] = [
        {"align": "right" if column.is_number else "left", "is_wrapped": True} for column in columns
    ]
    body = [[_cell(cell) for cell in row.cells] for row in rows]
    return {
        "type": Newer.TABLE.value,
        "block_id": block_id,
        "rows": cast("JsonValue", [head, *body]),
        "column_settings": settings,
    }


def _cell(spans: tuple[TextSpan, ...]) -> JsonObject:
    return as_json(RichTextBlock(elements=elements([Line(spans)])))
