"""Verifies the ledger: finds the first line that was changed, and counts what proves the others. Pure.

There are three levels of proof. A line's fingerprint shows that somebody with the secret wrote it like this. A
checkpoint over the line, or over a later one of its chain, shows that it was not removed. An anchor that has the
checkpoint shows that nobody cut off the end together with its checkpoints. So the result is "untampered" only with an
anchor, and only for lines up to the anchor's last checkpoint. Without an anchor it is "consistent".

Whoever has only the public key can't check the fingerprints. For them a line is proven by a signed checkpoint over it,
or over a later one of its chain; a line that none covers yet is counted, and proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from adk_confirm.bot.audit.checkpoints import (
    Anchor,
    Checkpoint,
    Proof,
    PublicKeys,
    checkpoint_is_sealed,
    checkpoint_is_signed,
)
from adk_confirm.bot.audit.ledger import (
    NOT_PURGED,
    SYSTEM,
    Head,
    LedgerLine,
    LineKind,
    fault,
    is_sealed,
    is_whole,
)

SeqRange = tuple[int, int]
"""A range of line numbers, both ends included."""

Emptied = tuple[tuple[str, tuple[SeqRange, ...]], ...]
"""The numbers of lines that lost their content, by chain."""


def group_emptied(lines: Iterable[tuple[str, int]]) -> Emptied:
    """
    >>> group_emptied([("b", 7), ("a", 2), ("a", 1), ("a", 4)])
    (('a', ((1, 2), (4, 4))), ('b', ((7, 7),)))
    """
    spans: dict[str, list[SeqRange]] = {}
    for chain, seq in sorted(lines):
        known = spans.setdefault(chain, [])
        if known and known[-1][1] == seq - 1:
            known[-1] = (known[-1][0], seq)
        else:
            known.append((seq, seq))
    return tuple((chain, tuple(found)) for chain, found in spans.items())


Purges = Mapping[str, Sequence[SeqRange]]
"""All lines that were purged."""


def read_purges(lines: Iterable[LedgerLine], sealed: SealedCheckpoints) -> Purges:
    """Finds which lines were purged: what the proven purge lines among `lines` say."""
    spans: dict[str, list[SeqRange]] = {}
    for line in lines:
        if line.chain != SYSTEM or line.kind is not LineKind.PURGED or line.content is None or line.salt is None:
            continue
        if not is_whole(line) or not sealed.prove(line):
            continue
        for chain, found in json.loads(line.content).get("emptied", []):
            spans.setdefault(chain, []).extend((first, last) for first, last in found)
    return spans


class Integrity(StrEnum):
    UNTAMPERED = "untampered"
    CONSISTENT = "consistent"
    BROKEN = "broken"


@dataclass(frozen=True)
class Broken:
    """The first line that was changed. Without a `seq`: the chain or checkpoint that was changed."""

    chain: str
    seq: int | None
    why: str


@dataclass(kw_only=True)
class Report:
    """What `audit verify` found. `anchored` is the last checkpoint that the anchor confirms."""

    finding: Integrity = Integrity.CONSISTENT
    lines: int = 0
    purged: int = 0
    chains: int = 0
    checkpoints: int = 0
    anchored: int | None = None
    later: int = 0  # checkpoints after the anchored one
    vouched: int = 0  # lines that the anchored checkpoint, or one before it, covers
    vouched_chains: int = 0
    loose: int = 0  # lines that no checkpoint covers yet
    loose_chains: int = 0
    broken: Broken | None = None
    by_key: bool = False  # verified with the public key


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a checkpoint says about a chain: this line was its head."""

    head: Head
    number: int


@dataclass
class SealedCheckpoints:
    """The content of the checkpoints, up to the first that is not proven. `first`: checkpoints before this number were
    sealed with an earlier secret, and count only for whoever still has that."""

    proof: Proof
    first: int = 1
    fingerprints: dict[int, str] = field(default_factory=dict)
    claims: dict[str, list[_Claim]] = field(default_factory=dict)
    broken: Broken | None = None

    @classmethod
    def read(cls, checkpoints: Iterable[Checkpoint], proof: Proof, first: int = 1) -> SealedCheckpoints:
        """`checkpoints` must be sorted by number."""
        sealed = cls(proof, first)
        sealed.broken = sealed._take_checkpoints(checkpoints)
        return sealed

    def prove(self, line: LedgerLine) -> bool:
        """Whether a line that is whole was written by a holder of the secret, as far as that can be known. With the
        public key only a checkpoint shows it."""
        if isinstance(self.proof, PublicKeys):
            return line.seq <= self.covered(line.chain)
        return is_sealed(line, self.proof)

    def last_hash(self, chain: str) -> str:
        """The hash of the chain's head in the last checkpoint that covers it; "" if there is none."""
        claims = self.claims.get(chain)
        return claims[-1].head.hash if claims else ""

    def covered(self, chain: str, up_to: int | None = None) -> int:
        """The last line of a chain that the checkpoints cover: all of them, or those up to the given one."""
        found = (one.head.seq for one in self.claims.get(chain, ()) if up_to is None or one.number <= up_to)
        return max(found, default=0)

    def _take_checkpoints(self, checkpoints: Iterable[Checkpoint]) -> Broken | None:
        before: Checkpoint | None = None
        for number, point in enumerate(checkpoints, start=1):
            if point.number != number:
                return _no_checkpoint(number, "is missing")
            if point.previous != (before.sealed if before else ""):
                return _no_checkpoint(number, "does not continue the one before it")
            last, before = before, point
            if isinstance(self.proof, PublicKeys):
                if not point.signature and not self.fingerprints:
                    continue  # it was made before there was a key
                if not checkpoint_is_signed(point, last, self.proof):
                    return _no_checkpoint(number, "was not signed with this key")
            elif not checkpoint_is_sealed(point, self.proof):
                if number < self.first and not self.fingerprints:
                    continue
                return _no_checkpoint(number, "was not sealed with this secret")
            self.fingerprints[number] = point.sealed
            for chain, head in point.heads.items():
                self.claims.setdefault(chain, []).append(_Claim(head, number))
        if isinstance(self.proof, PublicKeys) and not self.fingerprints:
            return Broken("checkpoints", None, "none is signed")
        return None


def verify(
    lines: Iterable[LedgerLine],
    sealed: SealedCheckpoints,
    *,
    purges: Purges,
    anchor: Anchor | None = None,
) -> Report:
    """Checks all `lines`, which must be sorted by chain and seq. They are read one by one, so there may be any number.

    If several things are wrong, a line that does not fit its chain is reported first, then a checkpoint, then a line
    whose fingerprint does not fit: with a wrong secret, none fits.
    """
    anchored = max((n for n in sealed.fingerprints if anchor and n in anchor), default=None)
    later = sum(number > (anchored or 0) for number in sealed.fingerprints)
    report = Report(
        checkpoints=len(sealed.fingerprints),
        anchored=anchored,
        later=later,
        by_key=isinstance(sealed.proof, PublicKeys),
    )
    look = _LedgerPass(sealed, purges, report)
    report.broken = (
        look.at(lines)
        or look.missing()
        or sealed.broken
        or _broken_anchor(sealed.fingerprints, anchor)
        or look.unproven
    )
    if report.broken is not None:
        report.finding = Integrity.BROKEN
    elif anchored is not None:
        report.finding = Integrity.UNTAMPERED
    return report


@dataclass
class _LedgerPass:
    """One pass over all lines, which counts in the report. `unproven`: the first line whose fingerprint does not fit,
    reported if nothing else is wrong."""

    sealed: SealedCheckpoints
    purges: Purges
    report: Report
    unproven: Broken | None = None
    lengths: dict[str, int] = field(default_factory=dict)

    def at(self, lines: Iterable[LedgerLine]) -> Broken | None:
        for chain, group in groupby(lines, key=lambda line: line.chain):
            self.report.chains += 1
            broken = self._chain(chain, group)
            if broken is not None:
                return broken
            self._count(chain, self.lengths[chain])
        return None

    def missing(self) -> Broken | None:
        """Finds lines that a checkpoint covers and that are gone: somebody cut off the end of the chain."""
        gone = min(
            (
                (claim.number, chain, claim.head.seq)
                for chain, claims in self.sealed.claims.items()
                for claim in claims
                if claim.head.seq > self.lengths.get(chain, 0)
            ),
            default=None,
        )
        if gone is None:
            return None
        number, chain, seq = gone
        return Broken(chain, seq, f"it is missing; checkpoint {number} was made over it")

    def _chain(self, chain: str, lines: Iterator[LedgerLine]) -> Broken | None:
        head = Head()
        claims = sorted(self.sealed.claims.get(chain, ()), key=lambda one: one.head.seq, reverse=True)
        for line in lines:
            self.report.lines += 1
            self.report.purged += line.content is None
            why = fault(line, head)
            if why is not None:
                return Broken(chain, line.seq if line.seq == head.seq + 1 else head.seq + 1, why)
            while claims and claims[-1].head.seq <= line.seq:
                claim = claims.pop()
                if claim.head != line.head:
                    return Broken(chain, line.seq, f"it is not the line that checkpoint {claim.number} was made over")
            why = self._doubt_about(line)
            if why is not None and self.unproven is None:
                self.unproven = Broken(chain, line.seq, why)
            head = line.head
        self.lengths[chain] = head.seq
        return None

    def _doubt_about(self, line: LedgerLine) -> str | None:
        public = isinstance(self.sealed.proof, PublicKeys)
        if not public and not self.sealed.prove(line):
            return "it was not written with this secret"
        covered = any(first <= line.seq <= last for first, last in self.purges.get(line.chain, ()))
        if line.content is None and not covered:
            return f"{NOT_PURGED} that a signed checkpoint covers" if public else NOT_PURGED
        if line.content is not None and covered:
            return "a purge removed its content, and it is back"
        return None

    def _count(self, chain: str, length: int) -> None:
        loose = length - min(length, self.sealed.covered(chain))
        self.report.loose += loose
        self.report.loose_chains += loose > 0
        if self.report.anchored is not None:
            vouched = min(length, self.sealed.covered(chain, self.report.anchored))
            self.report.vouched += vouched
            self.report.vouched_chains += vouched > 0


def _broken_anchor(fingerprints: Mapping[int, str], anchor: Anchor | None) -> Broken | None:
    for number, recorded in sorted(anchor.items()) if anchor else ():
        if number not in fingerprints:
            return _no_checkpoint(number, "of the anchor is missing")
        if fingerprints[number] != recorded:
            return _no_checkpoint(number, "is not the one that the anchor tells of")
    return None


def _no_checkpoint(number: int, why: str) -> Broken:
    return Broken("checkpoints", None, f"checkpoint {number} {why}")
