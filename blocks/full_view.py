"""The full view of a call, page by page in a modal.

Nobody can approve here without having been shown everything. A call that a modal can't hold is refused when it is asked
for (`can_be_shown`). If there is more to show than that, such as a long result, the view ends with a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import WHOLE, asked_by_line, content
from adk_confirm.blocks.card import around, audit_line, heading, outcome, small_facts, status
from adk_confirm.blocks.click_ids import Callback, block_id
from adk_confirm.blocks.kit import JsonObject, header, modal, small_print
from adk_confirm.blocks.rich_text import Box, Line, Piece, Quote, line, markup, name, rich, say
from adk_confirm.blocks.shown import OutcomeKind, Shown
from adk_confirm.blocks.text import VIEW_BLOCKS, pieces, units, visible
from adk_confirm.runtime.jsontypes import Json, is_larger

PAGE = 2500
VIEW_BYTES = 240_000  # of 250 kB
MOST_FIELDS, FIELD_BYTES = 88, 150_000
MOST_IN_ITEMS = 48
"""How many blocks the values inside objects may take. An object or a list that needs more is one field, as JSON."""
_NAMES = 50
_AROUND = 9  # blocks of a view that are neither pages nor fields: title, state, small print, notes, boxes to tick
_STATUS_BLOCKS, _STATUS_BYTES = 4, 20_000
"""Room in "All details" beside the call, while people are asked: for who decides, who has voted, and notices."""


@dataclass(frozen=True, slots=True)
class Pages:
    """As many pages as fit, from the beginning; `whole` if that is all. `left` is the remaining room."""

    blocks: tuple[JsonObject, ...]
    whole: bool
    left: tuple[int, int]


def split_pages(parts: Iterable[Piece], name: str, most: int, size: int) -> Pages:
    """The pieces as rich text of at most `most` blocks and `size` bytes. Each block has a length that Slack accepts."""
    blocks: list[JsonObject] = []
    for index, page in enumerate(_pages(parts)):
        block = rich(page, f"{name}.{index}")
        size -= len(json.dumps(block))
        if index >= most or size < 0:
            return Pages(tuple(blocks), whole=False, left=(0, 0))
        blocks.append(block)
    return Pages(tuple(blocks), whole=True, left=(most - len(blocks), size))


def _pages(parts: Iterable[Piece]) -> Iterable[list[Piece]]:
    page: list[Piece] = []
    spent = 0
    for part in _split(parts):
        length = units(markup(part.spans) if isinstance(part, Line) else part.text)
        if page and spent + length > PAGE:
            yield page
            page, spent = [], 0
        page.append(part)
        spent += length
    if page:
        yield page


def _split(parts: Iterable[Piece]) -> Iterable[Piece]:
    for part in parts:
        if isinstance(part, Line):
            yield part
        elif isinstance(part, Box):
            yield from (Box(text) for text in pieces(visible(part.text, keep="\n\t"), PAGE))
        else:
            *first, last = pieces(visible(part.text, keep="\n\t"), PAGE) or [""]
            yield from (*map(Quote, first), Quote(last, part.by))


def what_runs(view: Shown) -> list[Piece]:
    whole = content(view, WHOLE)
    return [asked_by_line(view, exact=True), *whole.runs, *whole.words]


def room_beside(inputs: Iterable[JsonObject] = ()) -> tuple[int, int]:
    """The blocks and bytes that a view with these fields has left for pages."""
    sizes = [len(json.dumps(one)) for one in inputs]
    return VIEW_BLOCKS - _AROUND - len(sizes), VIEW_BYTES - sum(sizes)


def can_be_shown(view: Shown) -> bool:
    """Whether a form can show all of this call, beside the fields of the answer that it may want. Otherwise it is
    refused before anybody is asked: what can't be shown can't be approved. What is larger than a view is not drawn."""
    preview = view.preview.shows if view.preview else None
    values: list[Json] = [one.value for one in (*view.arguments, *view.payload)]
    if any(is_larger(part, VIEW_BYTES // 3, VIEW_BYTES) for part in (values, preview, view.hint)):
        return False
    parts, (most, size) = what_runs(replace(view, answered=False)), room_beside()
    if view.wants_payload:
        parts += [line(words.STAYS), *content(replace(view, arguments=view.payload), WHOLE).runs]
        most -= min((len(view.editable) or 1) + MOST_IN_ITEMS, MOST_FIELDS)
        size -= FIELD_BYTES
    return split_pages(parts, "page", most - _STATUS_BLOCKS, size - _STATUS_BYTES).whole


def _everything(view: Shown) -> list[Piece]:
    became, returned, _ = outcome(view, WHOLE)
    runs = what_runs(view)
    after = [Line(returned)] if returned else []
    failed = view.stage is OutcomeKind.FAILED
    return [*(became if failed else ()), *runs, *(() if failed else became), *after, *around(view)]


def everything(view: Shown, *, again: bool = False) -> JsonObject:
    """What "All details" opens. `again`: what Run again opens if the card does not show everything that would run."""
    pages = split_pages(_everything(view), _name(view), *room_beside())
    found = Line((*audit_line(view).spans, *say(" · call {id}", id=name(view.call_id))))
    small = small_print([*small_facts(view), found], f"facts.{_name(view)}")
    top = [header(heading(view), f"title.{_name(view)}"), rich(status(view, _NAMES), f"state.{_name(view)}")]
    title, follows, verb = words.run_again(len(view.voted), view.quorum)
    top += [rich([line(f"⚠️ {follows}")], "twice")] if again else []
    callback, title = (Callback.RUN_AGAIN, title) if again else (Callback.SHOW, "All details")
    blocks, submit = [*top, *pages.blocks, *small, *cut_note(pages)], verb if again and pages.whole else None
    return modal(callback, title, blocks, metadata=view.ref.encode(), submit=submit)


def cut_note(pages: Pages) -> list[JsonObject]:
    """A note for pages that do not hold everything. A view with this note has no submit button."""
    note = rich([line("This is only the beginning: all of it is too long for a window.")], "too_much")
    return [] if pages.whole else [note]


def _name(view: Shown) -> str:
    return block_id("page", view.ref, view.version)
