"""Checkpoints over the ledger's chains. Pure.

The lines' fingerprints show that no line was changed, but not that the last lines are still there. So a checkpoint has
a fingerprint over the current ends of all chains that grew, and over the checkpoint before it. Each checkpoint is also
written outside the database (to the log, to a channel): that copy is the anchor. Without an anchor, somebody could cut
off the last lines together with their checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from adk_confirm.bot.audit.ledger import Head, stamp
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.seal import Seal


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`heads` are the heads of the chains that grew since the previous checkpoint. `previous` is the fingerprint of
    that checkpoint."""

    number: int
    at: datetime
    heads: Mapping[str, Head]
    previous: str
    sealed: str

    def publish(self, seal: Seal) -> str:
        """The line for the log and the channel. An anchor file consists of such lines. Only a holder of the secret can
        write one."""
        said = f"checkpoint {self.number} {stamp(self.at)} {self.sealed}"
        return f"{said} {seal.of('published', self.number, said)}"


def checkpoint(before: Checkpoint | None, heads: Mapping[str, Head], at: datetime, seal: Seal) -> Checkpoint:
    number, previous = (before.number + 1, before.sealed) if before else (1, "")
    point = Checkpoint(number=number, at=at, heads=heads, previous=previous, sealed="")
    return replace(point, sealed=seal.of("checkpoint", number, _content(point)))


def checkpoint_is_sealed(point: Checkpoint, seal: Seal) -> bool:
    """Whether the checkpoint is as it was made. If not, it was changed, or sealed with another secret."""
    return seal.fits(point.sealed, "checkpoint", point.number, _content(point))


@dataclass(frozen=True)
class Anchor:
    """Checkpoints as they were written outside the database: fingerprints by number."""

    fingerprints: Mapping[int, str]

    @classmethod
    def parse(cls, text: str, seal: Seal) -> Anchor:
        """Reads checkpoint lines as `publish` writes them, whatever a log or a channel put before or after. A line that
        somebody else wrote there does not count.

        Of several lines with one number the first counts: what was published can't be changed later.
        """
        found: dict[int, str] = {}
        for said, number, sealed, written in _ANCHORED.findall(text):
            if seal.fits(written, "published", int(number), said):
                found.setdefault(int(number), sealed)
        if not found:
            raise Invalid(
                "The anchor holds no checkpoint that was sealed with this secret. "
                "Its lines read: checkpoint <number> <time> <fingerprint> <fingerprint of the line>."
            )
        return cls(found)


_ANCHORED = re.compile(r"\b(checkpoint (\d{1,18}) \S{1,40} ([0-9a-f]{64})) ([0-9a-f]{64})\b")


def _content(point: Checkpoint) -> JsonObject:
    heads: JsonObject = {chain: [head.seq, head.hash] for chain, head in point.heads.items()}
    return {
        "number": point.number,
        "at": stamp(point.at),
        "heads": heads,
        "previous": point.previous,
    }
