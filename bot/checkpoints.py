"""Checkpoints over the ledger's chains, and verification that names the first broken line. Pure.

A chain shows that nothing in it was changed, but whoever owns the database could write a whole new one. So from time to
time the heads of the chains that moved are sealed with a secret outside the database, each checkpoint over the one
before. Its one-line form also goes to a place outside (the log, a channel): that is the anchor. Without an anchor the
end of the ledger could have been cut off together with its checkpoints, so the finding is "consistent"; with one it is
"untampered", up to the last anchored checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from bot.ledger import Head, Line, fault, stamp
from bot.seal import Seal
from runtime.errors import Invalid
from runtime.jsontypes import JsonObject

PURPOSE = "checkpoint"
"""What the seal must be made for."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`heads` are those of the chains that moved since the checkpoint before; `previous` is that one's seal."""

    number: int
    at: datetime
    heads: Mapping[str, Head]
    previous: str
    sealed: str

    def __str__(self) -> str:
        """The line for the log and the channel, and what an anchor file is made of."""
        return f"checkpoint {self.number} {stamp(self.at)} {self.sealed}"


def checkpoint(before: Checkpoint | None, heads: Mapping[str, Head], at: datetime, seal: Seal) -> Checkpoint:
    number, previous = (before.number + 1, before.sealed) if before else (1, "")
    return Checkpoint(
        number=number, at=at, heads=heads, previous=previous, sealed=seal.of(_said(number, at, heads, previous))
    )


@dataclass(frozen=True)
class Anchor:
    """The checkpoints as they were told outside: their seals by number."""

    seals: Mapping[int, str]

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Reads what `str(checkpoint)` gives, one a line, whatever a log or a channel put before or after it.

        >>> Anchor.parse("12:00 INFO checkpoint 7 2030-01-01T12:00:00.000000+00:00 " + "ab" * 32).seals[7][:4]
        'abab'
        """
        found = {int(number): sealed for number, sealed in _ANCHORED.findall(text)}
        if not found:
            raise Invalid("The anchor holds no checkpoint; a line of it reads: checkpoint <number> <time> <seal>.")
        return cls(found)


_ANCHORED = re.compile(r"\bcheckpoint (\d{1,18}) \S+ ([0-9a-f]{64})\b")


class Finding(StrEnum):
    UNTAMPERED = "untampered"
    CONSISTENT = "consistent"
    BROKEN = "broken"


@dataclass(frozen=True)
class Broken:
    """The first line that is not as it was written; or, without a `seq`, the checkpoint that is not."""

    chain: str
    seq: int | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What `audit verify` found. `anchored` is the last checkpoint that the anchor vouches for."""

    finding: Finding
    lines: int = 0
    purged: int = 0
    chains: int = 0
    checkpoints: int = 0
    anchored: int | None = None
    broken: Broken | None = None


@dataclass
class _Tally:
    lines: int = 0
    purged: int = 0
    chains: int = 0
    wanted: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    """What the checkpoints say of lines, by chain and seq: the hash, and which checkpoint."""


def verify(
    lines: Iterable[Line], checkpoints: Iterable[Checkpoint], seal: Seal, anchor: Anchor | None = None
) -> Report:
    """`lines` come sorted by chain and seq, checkpoints by number; both are read once, so any number will do.

    Of several things that are wrong, a line is named rather than a checkpoint.
    """
    tally = _Tally()
    sealed: dict[int, str] = {}
    unsealed = _broken_checkpoint(checkpoints, seal, sealed, tally) or _broken_anchor(sealed, anchor)
    broken = _broken_line(lines, tally) or _missing_line(tally) or unsealed
    anchored = max((n for n in sealed if anchor is not None and n in anchor.seals), default=None)
    sound = Finding.CONSISTENT if anchored is None else Finding.UNTAMPERED
    return Report(
        finding=sound if broken is None else Finding.BROKEN,
        lines=tally.lines,
        purged=tally.purged,
        chains=tally.chains,
        checkpoints=len(sealed),
        anchored=anchored,
        broken=broken,
    )


def _broken_checkpoint(
    checkpoints: Iterable[Checkpoint], seal: Seal, sealed: dict[int, str], tally: _Tally
) -> Broken | None:
    previous = ""
    for number, point in enumerate(checkpoints, start=1):
        if point.number != number:
            return Broken("checkpoints", None, f"checkpoint {number} is missing")
        if point.previous != previous:
            return Broken("checkpoints", None, f"checkpoint {number} does not continue the one before it")
        if not seal.matches(_said(point.number, point.at, point.heads, point.previous), point.sealed):
            return Broken("checkpoints", None, f"checkpoint {number} was not sealed with this secret")
        previous = sealed[number] = point.sealed
        for chain, head in point.heads.items():
            tally.wanted[chain, head.seq] = (head.hash, number)
    return None


def _broken_anchor(sealed: Mapping[int, str], anchor: Anchor | None) -> Broken | None:
    for number, told in sorted(anchor.seals.items()) if anchor else ():
        if number not in sealed:
            return Broken("checkpoints", None, f"checkpoint {number} of the anchor is missing")
        if sealed[number] != told:
            return Broken("checkpoints", None, f"checkpoint {number} is not the one that the anchor tells of")
    return None


def _broken_line(lines: Iterable[Line], tally: _Tally) -> Broken | None:
    for chain, group in groupby(lines, key=lambda line: line.chain):
        tally.chains += 1
        head = Head()
        for line in group:
            tally.lines += 1
            tally.purged += line.content is None
            why = fault(line, head)
            if why is not None:
                return Broken(chain, line.seq if line.seq == head.seq + 1 else head.seq + 1, why)
            told, number = tally.wanted.pop((chain, line.seq), (line.hash, 0))
            if told != line.hash:
                return Broken(chain, line.seq, f"it is not the line that checkpoint {number} was made over")
            head = line.head
    return None


def _missing_line(tally: _Tally) -> Broken | None:
    """Lines that a checkpoint was made over and that are not there: the chain was cut off."""
    missing = min(((number, chain, seq) for (chain, seq), (_, number) in tally.wanted.items()), default=None)
    if missing is None:
        return None
    number, chain, seq = missing
    return Broken(chain, seq, f"it is missing; checkpoint {number} was made over it")


def _said(number: int, at: datetime, heads: Mapping[str, Head], previous: str) -> JsonObject:
    spelled: JsonObject = {chain: [head.seq, head.hash] for chain, head in heads.items()}
    return {"v": 1, "number": number, "at": stamp(at), "heads": spelled, "previous": previous}
