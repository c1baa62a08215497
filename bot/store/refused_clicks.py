"""Limits ledger lines about refused clicks: the first three refusals of one person for the same reason get a line each,
and a metric counts the rest.

A person who clicks again and again therefore fills neither the ledger nor the thread. The thread mentions the third
refusal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from bot.audit.ledger import LineKind
from bot.confirmation.effects import Step
from bot.confirmation.states import Transition
from bot.confirmation.stored_json import step_content
from runtime.jsontypes import Json, JsonObject
from runtime.store.database import Tx

TRIES = 3
"""After this many refused votes of one person on one card, the thread says once that they do not count."""

_IDENTITY = ("who", "revision", "text", "refusal")


@dataclass(frozen=True)
class RefusedAgain:
    """Tells the metrics how many refused clicks have no line of their own."""

    clicks: int


def without_repeats(tx: Tx, change: Transition) -> Transition:
    """The change without refusals that have enough lines already, for the same person and revision. The caller has
    locked the confirmation."""
    refused = [step for step in change.steps if step.kind is LineKind.VOTE_REFUSED]
    if not refused:
        return change
    lines = "SELECT content FROM bot_ledger WHERE confirmation = :id AND kind = :kind AND content IS NOT NULL"
    stored = tx.column(lines, id=change.row.id, kind=str(LineKind.VOTE_REFUSED))
    known = [_identity(json.loads(content)) for content in stored]
    repeats = [step for step in refused if known.count(_identity_of(step)) >= TRIES]
    if not repeats:
        return change
    tx.report(RefusedAgain(len(repeats)))
    return replace(change, steps=tuple(step for step in change.steps if step not in repeats))


def _identity_of(step: Step) -> list[Json]:
    return _identity(step_content(step))


def _identity(content: JsonObject) -> list[Json]:
    return [content.get(name) for name in _IDENTITY]
