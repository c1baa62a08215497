"""Fingerprints: keyed digests, made with a secret that is not in the database. Calls, votes, decisions, grants, ledger
lines and checkpoints have one. A stored part whose fingerprint fits is called sealed. Pure."""

from __future__ import annotations

import hashlib
import hmac

from runtime.jsontypes import Json, canonical


class Fingerprints:
    """Makes and checks fingerprints. Each purpose has its own key, so that no fingerprint fits for another purpose.

    >>> fingerprints = Fingerprints("not a real secret", "call")
    >>> shown = fingerprints.of({"tool": "deploy", "args": {"version": "2.4.1"}})
    >>> fingerprints.matches({"args": {"version": "2.4.1"}, "tool": "deploy"}, shown)
    True
    >>> fingerprints.matches({"args": {"version": "2.4.2"}, "tool": "deploy"}, shown)
    False
    """

    def __init__(self, secret: str, purpose: str) -> None:
        self._use(_derive_key(secret.encode(), purpose))

    def within(self, purpose: str) -> Fingerprints:
        """Those for one kind of thing within this purpose, with a key of their own. They are kept, because there are
        few purposes."""
        fingerprints = self._within.get(purpose)
        if fingerprints is None:
            fingerprints = self._within[purpose] = object.__new__(Fingerprints)
            fingerprints._use(_derive_key(self._key, purpose))
        return fingerprints

    def of(self, value: Json) -> str:
        # `hmac.digest` would give up the interpreter's lock each time, and wait for other threads to get it back.
        made = self._keyed.copy()
        made.update(canonical(value).encode("utf-8", "surrogatepass"))
        return made.hexdigest()

    def matches(self, value: Json, sealed: object) -> bool:
        return same_fingerprint(self.of(value), sealed)

    def _use(self, key: bytes) -> None:
        self._key, self._keyed = key, hmac.new(key, digestmod=hashlib.sha256)
        self._within: dict[str, Fingerprints] = {}


def same_fingerprint(one: str, other: object) -> bool:
    """Compares in constant time. As bytes, because `compare_digest` takes only ASCII texts, and the database may hold
    anything."""
    return isinstance(other, str) and hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


def _derive_key(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, f"adk-confirm {purpose} v1".encode(), hashlib.sha256)
