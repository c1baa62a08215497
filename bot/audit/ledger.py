"""The audit's lines, their hashes and their chains. Pure; see also `checkpoints.py`, `verification.py`.

Each session has a chain, and the installation has one called `system`. A line's hash covers its header, the *digest* of
its content, and the hash of the line before. So content can be purged, and every chain still verifies. The digest
covers the content and a salt. A purge deletes both, so that nobody can find a purged "amount 1500" again by trying
amounts.

Every line is sealed when it is made, over its hash. The secret is outside the database: somebody who can write to the
database but has no secret can make a chain of hashes, but no seal that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from adk_confirm.blocks.ledger_kinds import LineKind as LineKind
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.seal import Seal

SYSTEM = "system"
GENESIS = "0" * 64
"""The hash that the first line of a chain continues."""

NOT_PURGED = "its content was removed, but not by a purge"


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a chain."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """A line of the ledger. `content` and `salt` are both `None` once purged. `confirmation` and `tool` are in the
    header, so that lines can be filtered after a purge.
    """

    chain: str
    seq: int
    at: datetime
    kind: LineKind
    confirmation: str | None
    tool: str | None
    content: str | None
    salt: str | None
    digest: str
    previous: str
    hash: str
    sealed: str

    @property
    def head(self) -> Head:
        return Head(self.seq, self.hash)


def digest(content: str, salt: str) -> str:
    return _sha256(f"{salt}\n{content}")


def append(
    head: Head,
    chain: str,
    kind: LineKind,
    content: JsonObject,
    seal: Seal,
    *,
    at: datetime,
    salt: str,
    confirmation: str | None = None,
    tool: str | None = None,
) -> LedgerLine:
    """The chain's next line. The caller passes a random `salt`, and content that is masked already.

    >>> noon, seal = datetime(2030, 1, 1, 12, tzinfo=UTC), Seal("not a real secret")
    >>> first = append(Head(), "system", LineKind.PAUSED, {"by": "operator"}, seal, at=noon, salt="x")
    >>> second = append(first.head, "system", LineKind.RESUMED, {}, seal, at=noon, salt="y")
    >>> second.seq, second.previous == first.hash, fault(second, first.head)
    (2, True, None)
    >>> fault(replace(second, content=None, salt=None), first.head)  # a purge leaves this
    >>> is_sealed(second, seal), is_sealed(second, Seal("a guess"))
    (True, False)
    """
    text = canonical(content)
    line = LedgerLine(
        chain=chain,
        seq=head.seq + 1,
        at=at,
        kind=kind,
        confirmation=confirmation,
        tool=tool,
        content=text,
        salt=salt,
        digest=digest(text, salt),
        previous=head.hash,
        hash="",
        sealed="",
    )
    line = replace(line, hash=line_hash(line))
    return replace(line, sealed=seal.of("line", line.chain, line.hash, line.seq))


def is_sealed(line: LedgerLine, seal: Seal) -> bool:
    return seal.fits(line.sealed, "line", line.chain, line.hash, line.seq)


def is_whole(line: LedgerLine) -> bool:
    """Whether the line's hash fits its header, and its digest its content."""
    return line.hash == line_hash(line) and _content_is_intact(line)


def to_show(line: LedgerLine, seal: Seal) -> LedgerLine:
    """The line, or an alarm in its place if its seal does not fit."""
    if is_sealed(line, seal) and is_whole(line):
        return line
    alarm = canonical({"text": "line"})
    return replace(line, kind=LineKind.UNSEALED, confirmation=None, tool=None, content=alarm, salt="")


def line_hash(line: LedgerLine) -> str:
    header: JsonObject = {
        "chain": line.chain,
        "seq": line.seq,
        "at": stamp(line.at),
        "kind": str(line.kind),
        "confirmation": line.confirmation,
        "tool": line.tool,
        "digest": line.digest,
        "previous": line.previous,
    }
    return _sha256(canonical(header))


def fault(line: LedgerLine, before: Head) -> str | None:
    """What is wrong with a line in its chain, given the line before it; `None` if nothing is.

    This needs no secret, so whoever can write to the database can make a line without a fault. See `is_sealed`.
    """
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: line.seq == before.seq + 1, f"line {before.seq + 1} is missing"),
        (lambda: line.previous == before.hash, "it does not continue the line before it"),
        (lambda: line.hash == line_hash(line), "its header was changed"),
        (lambda: (line.content is None) == (line.salt is None), NOT_PURGED),
        (lambda: _content_is_intact(line), "its content was changed"),
    )
    return next((what for sound, what in checks if not sound()), None)


def stamp(at: datetime) -> str:
    """The time as a text that is the same for all time zones and databases."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _content_is_intact(line: LedgerLine) -> bool:
    return line.content is None or line.salt is None or digest(line.content, line.salt) == line.digest


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
