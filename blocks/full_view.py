"""The full view of a call: page by page in a modal, or as a file if a modal is too small.

Nobody can approve here without having been shown everything. If a modal can't hold it all, Approve appears only once
the file exists, and asks people to read the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import JsonValue
from slack_sdk.models.blocks import Block, CheckboxesElement, InputBlock, Option

from blocks import words
from blocks.card_text import approval_status, heading, notices, outcome, small_facts
from blocks.content import WHOLE, asked_by_line, content
from blocks.ids import Action, Callback, Ref, block_id
from blocks.kit import JsonObject, header, modal, plain_text, small_print
from blocks.model_json import as_json
from blocks.rich import Box, Line, Link, Piece, Quote, line, markup, rich
from blocks.text import VIEW_BLOCKS, pieces, units, visible
from blocks.values import json_text
from blocks.view import CardView, Face

PAGE = 2500
VIEW_BYTES = 240_000  # of 250 kB
MOST_FIELDS = 88
_NAMES = 50
_AROUND = 8  # blocks of a view that are neither pages nor fields: title, small print, notes, boxes to tick
_BYTES_BESIDE_FIELDS = 60_000
FILE_READ = "file_read"


@dataclass(frozen=True, slots=True)
class Pages:
    """As many pages as fit, from the beginning; `whole` if that is all. `left` is the remaining room."""

    blocks: tuple[Block, ...]
    whole: bool
    left: tuple[int, int]


def split_pages(parts: Iterable[Piece], name: str, most: int, size: int) -> Pages:
    """The pieces as rich text of at most `most` blocks and `size` bytes. Each block has a length that Slack accepts."""
    blocks: list[Block] = []
    for index, page in enumerate(_pages(parts)):
        block = rich(page, f"{name}.{index}")
        size -= len(json.dumps(as_json(block)))
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
        else:
            kind = Box if isinstance(part, Box) else Quote
            yield from (kind(text) for text in pieces(visible(part.text, keep="\n\t"), PAGE))


def what_runs(view: CardView) -> list[Piece]:
    whole = content(view, WHOLE)
    return [*whole.intro, *whole.arguments]


def room_beside_fields(fields: int) -> tuple[int, int]:
    """The blocks and bytes that a view with this number of fields has left for pages."""
    size = _BYTES_BESIDE_FIELDS if fields else VIEW_BYTES
    return VIEW_BLOCKS - _AROUND - min(fields, MOST_FIELDS), size


def needs_file(view: CardView) -> bool:
    """Whether the whole call must be posted as a file, because one of its views can't hold everything."""
    if view.face is Face.WAITING and view.editable:
        parts = [*what_runs(view), *content(replace(view, arguments=view.payload), WHOLE).arguments]
        most, size = room_beside_fields(len(view.editable))
        return not split_pages(
            parts, "page", most - 1, size
        ).whole  # a form shows it in two parts, which may take one more
    return not split_pages(_everything(view), "page", *room_beside_fields(0)).whole


def _everything(view: CardView) -> list[Piece]:
    became, _ = outcome(view, WHOLE)
    over = [asked_by_line(view)] if became else []
    return [*became, *over, *what_runs(view), *approval_status(view, _NAMES), *notices(view)]


def everything(view: CardView) -> JsonObject:
    """What "See everything" opens."""
    blocks = _frame(view)
    pages = split_pages(_everything(view), _name(view), *room_beside_fields(0))
    blocks += [*pages.blocks, *small_print(small_facts(view), f"facts.{_name(view)}")]
    blocks += [] if pages.whole else _length_warning(view)
    return modal(Callback.SHOW, words.TITLE_EVERYTHING, blocks, metadata=Ref(view.id, view.revision).encode())


def run_again_form(view: CardView) -> JsonObject:
    """What Run again opens if the card does not show everything that would run."""
    pages = split_pages(what_runs(view), _name(view), *room_beside_fields(0))
    may, seen = seen_whole(view, pages)
    twice = small_print([line(words.CONFIRM_RUN_AGAIN[1])], "twice")
    blocks = [*_frame(view), *pages.blocks, *seen, *twice]
    submit = words.RUN_AGAIN if may else None
    metadata = Ref(view.id, view.revision).encode()
    return modal(Callback.RUN_AGAIN, words.TITLE_RUN_AGAIN, blocks, metadata=metadata, submit=submit)


def seen_whole(view: CardView, pages: Pages) -> tuple[bool, list[Block]]:
    """Whether a view with these pages may have a submit button, and what it needs for that."""
    if pages.whole:
        return True, []
    if view.file_link is None:
        return False, _length_warning(view)
    box = CheckboxesElement(
        action_id=Action.FIELD.value, options=[Option(value=FILE_READ, text=plain_text(words.FILE_READ))]
    )
    label = plain_text(words.FILE_READ_LABEL)
    return True, [*_length_warning(view), InputBlock(label=label, element=box, block_id=FILE_READ, optional=False)]


def _frame(view: CardView) -> list[Block]:
    return [header(heading(view), f"title.{_name(view)}")]


def _name(view: CardView) -> str:
    return block_id("page", Ref(view.id, view.revision), view.version)


def _length_warning(view: CardView) -> list[Block]:
    if view.file_link:
        note = line(words.TOO_MUCH, file=Link(view.file_link, words.THE_FILE))
    else:
        note = line(words.TOO_MUCH_YET)
    return [rich([note], "too_much")]


# -- as a file


def file_name(view: CardView) -> str:
    tool = re.sub(r"[^A-Za-z0-9_-]+", "-", view.tool, flags=re.ASCII).strip("-")[:40] or "call"
    return f"{tool}-{view.id}-r{view.revision}.txt"


def file_text(view: CardView) -> str:
    """The whole call as plain text. Supplied text is indented, so that no line of it looks like one of ours."""
    parts = [words.REVISION.format(revision=view.revision)]
    entries = [(words.TOOL, visible(view.tool)), (words.AGENT, visible(view.agent))]
    if view.hint:
        entries.append((words.HINT, visible(view.hint, keep="\n\t")))
    for argument in (*view.arguments, *view.payload):
        value = words.HIDDEN_VALUE if argument.masked else _text_of(argument.value)
        entries.append((json_text(argument.name), value))
    for name, text in entries:
        parts += ["", f"{name}:", *(f"    {row}" for row in text.split("\n"))]
    return "\n".join(parts) + "\n"


def _text_of(value: JsonValue) -> str:
    boxed = isinstance(value, str) and "\n" in value
    return visible(str(value), keep="\n\t") if boxed else json_text(value, indented=True)
