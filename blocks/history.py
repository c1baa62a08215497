"""A confirmation's history: its ledger lines, each with its time. A shortcut on the card opens it."""

from __future__ import annotations

from blocks import words
from blocks.full_view import room_beside, split_pages
from blocks.ids import Callback, Ref, block_id
from blocks.kit import JsonObject, header, modal
from blocks.readable import LONGEST_TITLE
from blocks.rich import Line, Piece, Say, When, line
from blocks.step_views import HistoryView, StepView
from blocks.text import plain
from blocks.thread import history_pieces


def history(view: HistoryView) -> JsonObject:
    ref = Ref(view.id, view.revision)
    name = block_id("step", ref, view.version)
    blocks: list[JsonObject] = [header(plain(view.what, LONGEST_TITLE), f"title.{name}")]
    blocks += _steps(view, name)
    return modal(Callback.SHOW, words.TITLE_HISTORY, blocks, metadata=ref.encode())


def _steps(view: HistoryView, name: str) -> list[JsonObject]:
    """All steps in order. If there are too many: the latest, and a line that says so."""
    steps = list(view.steps)
    left_out: list[Piece] = []
    while True:
        pieces = [*left_out, *(piece for step in steps for piece in _step_pieces(step))]
        pages = split_pages(pieces or [line(words.HISTORY_EMPTY)], name, *room_beside())
        if pages.whole:
            return list(pages.blocks)
        steps = steps[len(steps) // 2 :]
        left_out = [line(words.HISTORY_CUT)]


def _step_pieces(step: StepView) -> list[Piece]:
    first, *rest = history_pieces(step)
    if not isinstance(first, Line):
        return [Line((When(step.at),)), first, *rest]
    return [Line((When(step.at), Say("  "), *first.spans)), *rest]
