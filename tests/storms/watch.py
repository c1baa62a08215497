"""What must hold at every moment of a storm. Each finding names a promise that was broken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adk_confirm.blocks.click_ids import parse_id
from adk_confirm.bot.inbound.clicks_and_forms import VOTES
from adk_confirm.bot.inbound.payloads import click_id, person_of, read_click
from adk_confirm.sandbox.server.delivery import Delivery
from bench.chaos.checks import DECISIONS
from bench.chaos.history import Effect, Finding

if TYPE_CHECKING:
    from tests.storms.office import Office


class Watch:
    def __init__(self, office: Office) -> None:
        self._office = office
        self.found: list[Finding] = []
        self._seen: dict[str, int] = {}  # lines of each chain that were looked at
        self._decided: dict[str, str] = {}
        self._began: Counter[str] = Counter()
        self._changes = 0

    def _find(self, promise: str, what: str, ticket: str = "") -> None:
        self.found.append(Finding(promise, what, ticket))
        self._office.note(f"BROKEN: {promise}: {what} {ticket}")

    def look(self) -> None:
        """After each commit: the new lines of the ledger."""
        store = self._office.store
        changes = store.connection.total_changes
        if changes == self._changes:
            return
        self._changes = changes
        for row in store.look("SELECT chain, seq FROM bot_chains"):
            before = self._seen.get(row.chain, 0)
            if row.seq == before:
                continue
            if row.seq < before:
                self._find("the ledger only grows", f"{row.chain} has {row.seq} lines after {before}")
            self._seen[row.chain] = row.seq
            lines = store.look(_NEW, chain=row.chain, after=before)
            if [line.seq for line in lines] != list(range(before + 1, row.seq + 1)):
                self._find("no line is missing", f"{row.chain}: {[line.seq for line in lines]} after {before}")
            for line in lines:
                self._line(line.kind, line.confirmation)

    def _line(self, kind: str, confirmation: str | None) -> None:
        if kind not in DECISIONS or not confirmation:
            return
        before = self._decided.setdefault(confirmation, kind)
        if before is not kind and before != kind:
            self._find("one decision each", f"{before}, then {kind}", confirmation)

    def tool(self, did: Effect) -> None:
        """A tool begins or ends. When it begins, the store says so, and it runs with what the ledger says."""
        if did.phase != "begins":
            return
        store = self._office.store
        calls = store.look("SELECT state, body FROM runtime_calls WHERE id = :id", id=did.call)
        rows = store.look("SELECT id FROM bot_confirmations WHERE call_id = :id", id=did.call)
        if len(calls) != 1 or len(rows) != 1:
            self._find(
                "nothing runs that was not approved", f"{len(calls)} calls, {len(rows)} confirmations", did.ticket
            )
            return
        lines = store.look(_ABOUT, id=rows[0].id)
        if "approved" not in [line.kind for line in lines]:
            self._find("nothing runs that was not approved", f"the ledger says {lines[-1].kind}", did.ticket)
        if calls[0].state not in ("running", "unknown"):  # it is unknown if this process was slow to begin
            self._find("a start is stored first", f"it began, and the store says {calls[0].state}", did.ticket)
        amount = _amount(lines)
        if amount != did.amount:
            self._find("what ran is what was approved", f"ran with {did.amount}, approved with {amount}", did.ticket)
        attempts = 1 + [line.kind for line in lines].count("run again")
        self._began[did.call] += 1
        if self._began[did.call] > attempts and did.tool != "tidy":
            self._find("an approved call runs once", f"it began {self._began[did.call]} times", did.ticket)

    def acked(self, made: Delivery) -> None:
        """A click was acknowledged: its vote is stored, or whoever clicked is told why not."""
        if made.kind != "interactive" or made.body.get("type") != "block_actions":
            return
        click = read_click(made.body)
        if click.ref is None or click.action not in VOTES or parse_id(click.value) is None:
            return
        vote = click_id(person_of(made.body), click.at, click.action, click.ref.encode())
        there = self._office.store.look(_VOTE, id=click.ref.id, vote=vote, like=f"%{vote}%")
        if not there:
            self._find("an acknowledged click is stored", f"{click.seat.person.user} {click.action}", click.ref.id)


_NEW = "SELECT seq, kind, confirmation FROM bot_ledger WHERE chain = :chain AND seq > :after ORDER BY seq"
_VOTE = """
    SELECT 1 AS there FROM bot_replies WHERE vote = :vote
    UNION ALL SELECT 1 FROM bot_confirmations WHERE id = :id AND body LIKE :like
"""


_ABOUT = "SELECT kind, content FROM bot_ledger WHERE confirmation = :id ORDER BY seq"


def _amount(lines: Sequence[Any]) -> object:
    """The amount of the last revision, according to the ledger."""
    amount: object = None
    for line in lines:
        content = json.loads(line.content or "{}")
        given = content.get({"asked": "arguments", "edited": "after"}.get(line.kind, ""))
        if isinstance(given, dict):
            amount = given.get("amount", amount)
    return amount
