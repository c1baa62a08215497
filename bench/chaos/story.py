"""A history, indexed for the checks. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from adk_confirm.blocks.shown import Stage
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State
from bench.chaos.history import ClickRecord, Effect, Entry, History, Message, Place

_T = TypeVar("_T")
_THREAD_OF = re.compile(r".*/slack-[A-Z0-9]+-([A-Z0-9]+)-([0-9.]+)$")


class Story:
    """A history, indexed for the checks."""

    def __init__(self, history: History) -> None:
        self.history = history
        ledger = sorted(history.ledger, key=lambda entry: (entry.session, entry.seq))
        self.lines: Mapping[str, list[Entry]] = _group(ledger, lambda entry: entry.confirmation)
        self.chains: Mapping[str, list[Entry]] = _group(ledger, lambda entry: entry.session)
        self.effects: Mapping[str, list[Effect]] = _group(history.effects, lambda effect: effect.ticket)
        self.clicks: Mapping[str, list[ClickRecord]] = _group(history.clicked, lambda click: click.confirmation)
        self.cards: Mapping[str, list[Message]] = _group(
            [one for one in history.messages if one.kind == "card"], lambda one: one.about
        )
        self.confirmations = {entry.confirmation: entry for entry in ledger if entry.kind == "asked"}

    def ticket(self, confirmation: str) -> str:
        """The ticket of a confirmation, according to the ledger."""
        entry = self.confirmations.get(confirmation)
        arguments = entry.content.get("arguments") if entry is not None else None
        found = arguments.get("ticket") if isinstance(arguments, dict) else None
        return str(found or self.history.tickets.get(confirmation, ""))

    def kinds(self, confirmation: str) -> list[str]:
        return [entry.kind for entry in self.lines[confirmation]]

    def ran(self, confirmation: str) -> tuple[int, int]:
        """How often its tool began, and how often it ended."""
        phases = [effect.phase for effect in self.effects[self.ticket(confirmation)]]
        return phases.count("begins"), phases.count("ends")

    def face(self, confirmation: str) -> Stage:
        """What its card must show, according to the ledger."""
        face: Stage = State.WAITING
        for kind in self.kinds(confirmation):
            face = _FACES.get(kind, face)
        return face


_FACES: dict[str, Stage] = {
    "approved": State.APPROVED,
    "denied": State.DENIED,
    "expired": State.EXPIRED,
    "withdrawn": State.WITHDRAWN,
    "answered elsewhere": State.ELSEWHERE,
    "lapsed": State.LAPSED,
    "begun": OutcomeKind.RUNNING,
    "done": OutcomeKind.DONE,
    "failed": OutcomeKind.FAILED,
    "refused": OutcomeKind.REFUSED,
    "unknown": OutcomeKind.UNKNOWN,
    "settled": OutcomeKind.HAPPENED,
    "nobody knows": OutcomeKind.NOBODY_KNOWS,
    "run again": State.APPROVED,
}


def thread_of(session: str) -> Place | None:
    found = _THREAD_OF.fullmatch(session)
    return (found[1], found[2]) if found else None


def _group(things: Sequence[_T], key: Callable[[_T], str]) -> Mapping[str, list[_T]]:
    found: dict[str, list[_T]] = defaultdict(list)
    for thing in things:
        found[key(thing)].append(thing)
    return found
