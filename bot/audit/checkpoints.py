"""Checkpoints over the ledger's chains. Pure.

The lines' fingerprints show that no line was changed, but not that the last lines are still there. So a checkpoint has
a fingerprint over the current ends of all chains that grew, and over the checkpoint before it. Each checkpoint is also
written outside the database (to the log, to a channel): that copy is the anchor. Without an anchor, somebody could cut
off the last lines together with their checkpoints.

Fingerprints are keyed with the secret, so only its holder can check them. With a key of its own (Ed25519) a checkpoint
is signed as well: whoever has the public key can check the signature, and through it every line that the checkpoint
covers, and can make neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from adk_confirm.bot.audit.ledger import Head, stamp
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.seal import Seal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`heads` are the heads of the chains that grew since the previous checkpoint. `previous` is the fingerprint of
    that checkpoint."""

    number: int
    at: datetime
    heads: Mapping[str, Head]
    previous: str
    sealed: str
    signature: str = ""  # if there is a key to sign with

    def publish(self, seal: Seal, key: CheckpointKey | None = None) -> str:
        """The line for the log and the channel. An anchor file consists of such lines. Only a holder of the secret can
        write one."""
        said = f"checkpoint {self.number} {stamp(self.at)} {self.sealed}"
        return " ".join(filter(None, (said, seal.of("published", self.number, said), key.sign(said) if key else "")))


def checkpoint(
    before: Checkpoint | None, heads: Mapping[str, Head], at: datetime, seal: Seal, key: CheckpointKey | None = None
) -> Checkpoint:
    number, previous = (before.number + 1, before.sealed) if before else (1, "")
    point = Checkpoint(number=number, at=at, heads=heads, previous=previous, sealed="")
    point = replace(point, signature=key.sign(_signed(point, before)) if key else "")
    return replace(point, sealed=seal.of("checkpoint", number, [_content(point), point.signature]))


def checkpoint_is_sealed(point: Checkpoint, proof: Seal) -> bool:
    """Whether the checkpoint is as it was made. If not, it was changed, or made with another secret."""
    return proof.fits(point.sealed, "checkpoint", point.number, [_content(point), point.signature])


def checkpoint_is_signed(point: Checkpoint, before: Checkpoint | None, keys: PublicKeys) -> bool:
    return keys.fit(point.signature, _signed(point, before))


def _signed(point: Checkpoint, before: Checkpoint | None) -> str:
    """What a signature covers: the checkpoint, and the signature before it. Otherwise somebody could remove the first
    signatures, and claim that those checkpoints were made before there was a key."""
    return canonical([_content(point), before.signature if before else ""])


# Signatures: keys and signatures are written in hexadecimal digits.


class CheckpointKey:
    """The private key: any 32 random bytes. It is outside the database."""

    _key: Ed25519PrivateKey

    def __init__(self, text: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(_bytes(text))

    def sign(self, said: str) -> str:
        return self._key.sign(said.encode("utf-8", "surrogatepass")).hex()

    @property
    def public(self) -> str:
        return self._key.public_key().public_bytes_raw().hex()


class PublicKeys:
    """The public keys of those who hold no secret. A checkpoint counts if its signature fits one of them."""

    _keys: tuple[Ed25519PublicKey, ...]

    def __init__(self, *texts: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        self._keys = tuple(Ed25519PublicKey.from_public_bytes(_bytes(text)) for text in texts)

    def fit(self, signature: str, said: str) -> bool:
        from cryptography.exceptions import InvalidSignature

        for key in self._keys:
            with suppress(InvalidSignature, ValueError):
                key.verify(bytes.fromhex(signature), said.encode("utf-8", "surrogatepass"))
                return True
        return False


Proof = Seal | PublicKeys
"""What shows that something is as this program wrote it: to holders of the secret, or to everybody."""


def _bytes(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise Invalid("A key is 64 hexadecimal digits, as `adk-confirm check` prints it.")
    return key


Anchor = Mapping[int, str]
"""Checkpoints as they were written outside the database: fingerprints by number."""


def read_anchor(text: str, proof: Proof) -> Anchor:
    """Reads checkpoint lines as `publish` writes them, whatever a log or a channel put before or after. A line that
    somebody else wrote there does not count.

    Of several lines with one number the first counts: what was published can't be changed later.
    """
    found: dict[int, str] = {}
    for said, number, sealed, written, signature in _ANCHORED.findall(text):
        if (
            proof.fit(signature, said)
            if isinstance(proof, PublicKeys)
            else proof.fits(written, "published", int(number), said)
        ):
            found.setdefault(int(number), sealed)
    if not found:
        how = "signed with this key" if isinstance(proof, PublicKeys) else "sealed with this secret"
        raise Invalid(
            f"The anchor holds no checkpoint that was {how}. Its lines read: checkpoint <number> <time> "
            "<fingerprint> <fingerprint of the line>, and the signature if checkpoints are signed."
        )
    return found


_ANCHORED = re.compile(r"\b(checkpoint (\d{1,18}) \S{1,40} ([0-9a-f]{64})) ([0-9a-f]{64})(?: ([0-9a-f]{128}))?\b")


def _content(point: Checkpoint) -> JsonObject:
    heads: JsonObject = {chain: [head.seq, head.hash] for chain, head in point.heads.items()}
    return {
        "number": point.number,
        "at": stamp(point.at),
        "heads": heads,
        "previous": point.previous,
    }
