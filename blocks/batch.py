"""The form for deciding several calls at once. It shows each call in full, and stores a vote for each.

Nobody approves what they can't see: a call that does not fit in full, or that needs an answer filled in, is left out
and named. The private metadata lists the calls that are shown, and only these are decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slack_sdk.models.blocks import Block

from blocks import words
from blocks.card_text import heading
from blocks.content import headline
from blocks.form import Denial, read_denial, reason_input
from blocks.full_view import room_beside_fields, split_pages, what_runs
from blocks.ids import BATCH, Callback, Ref, join_refs, parse_refs
from blocks.kit import JsonObject, header, modal
from blocks.rich import Line, Prose, join_list, line, rich
from blocks.view import CardView


@dataclass(frozen=True, slots=True)
class BatchReading:
    """A submitted batch: the confirmations that were shown, and the reason if they are denied."""

    refs: tuple[Ref, ...] = ()
    reason: str | None = None
    errors: dict[str, str] = field(default_factory=dict)


def batch_form(views: Sequence[CardView], *, approve: bool, reason_required: bool = False) -> JsonObject:
    room = room_beside_fields(1)[0], room_beside_fields(0)[1]
    blocks: list[Block] = []
    shown: list[Ref] = []
    alone: list[CardView] = []
    for view in {view.id: view for view in views}.values():
        ref = Ref(view.id, view.revision)
        pages = split_pages(what_runs(view), f"call.{ref.encode()}", room[0] - 1, room[1])
        if not pages.whole or len(shown) == BATCH or view.question or (approve and view.wants_payload):
            alone.append(view)
            continue
        room = pages.left
        shown.append(ref)
        blocks += [header(heading(view), f"title.{ref.encode()}"), *pages.blocks]
    if not shown:
        sentence = words.BATCH_NONE if views else words.TICK_FIRST
        return modal(Callback.SHOW, words.TITLE_BATCH, [rich([line(sentence)], "none")])
    blocks += [reason_input(required=reason_required)] if not approve else []
    blocks.append(rich([line(words.BATCH_EACH), *_single_calls_note(alone)], "each"))
    return modal(
        Callback.APPROVE_BATCH if approve else Callback.DENY_BATCH,
        words.batch_title(approve, len(shown)),
        blocks,
        metadata=join_refs(shown),
        submit=words.batch_submit(approve, len(shown)),
        close=words.CANCEL,
    )


def read_batch(
    metadata: object, values: Mapping[str, object], *, approve: bool, reason_required: bool = False
) -> BatchReading | None:
    """None when the metadata is not what `batch_form` wrote."""
    refs = parse_refs(metadata)
    if refs is None:
        return None
    denial = Denial() if approve else read_denial(values, required=reason_required)
    return BatchReading(errors=denial.errors) if denial.errors else BatchReading(refs, denial.reason)


def _single_calls_note(views: Sequence[CardView]) -> list[Line]:
    names = [Prose(headline(view), bold=True) for view in views[:BATCH]]
    return [line(words.BATCH_ALONE, tools=join_list(names))] if names else []
