"""The seal: a keyed digest on each stored row. Without the secret, nobody can write a row that counts, or change one.

A seal covers what kind of row it is, which one, its content, and where there is one its position in the ledger: with
each new line about a confirmation, all earlier states of its row are void. It is checked where a row is read, so that
nothing can be read of a row that does not verify. Such a row is void, and is never sealed again.
"""

from __future__ import annotations

import hashlib
import hmac

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.jsontypes import Json, canonical
from adk_confirm.runtime.store.transaction import Tx


class Seal:
    """Makes and checks seals. The secret is not in the database.

    >>> seal = Seal("not a real secret")
    >>> made = seal.of("letter", ["session", "1.2"], "deploy")
    >>> seal.fits(made, "letter", ["session", "1.2"], "deploy"), seal.fits(made, "letter", ["session", "1.2"], "stop")
    (True, False)
    >>> seal.fits(None, "letter", ["session", "1.2"], "deploy")
    False

    A secret that is `accepted` seals nothing. It is the old one, until everything is sealed anew.

    >>> of, later = ("letter", ["session", "1.2"], "deploy"), Seal("another secret", accepted="not a real secret")
    >>> later.fits(made, *of), later.made(made, *of)
    (True, False)
    """

    def __init__(self, secret: str, accepted: str | None = None) -> None:
        self._accepted = None if accepted is None else Seal(accepted)
        key = hmac.digest(secret.encode(), b"adk-confirm seal v1", hashlib.sha256)
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)

    def of(self, kind: str, key: Json, body: Json, position: int = 0) -> str:
        # `hmac.digest` would give up the interpreter's lock each time, and wait for other threads to get it back.
        made = self._keyed.copy()
        made.update(canonical([kind, key, body, position]).encode("utf-8", "surrogatepass"))
        return made.hexdigest()

    def fits(self, sealed: object, kind: str, key: Json, body: Json, position: int = 0) -> bool:
        """Whether it was sealed like this, with this secret or with the accepted one."""
        if self.made(sealed, kind, key, body, position):
            return True
        return self._accepted is not None and self._accepted.made(sealed, kind, key, body, position)

    def made(self, sealed: object, kind: str, key: Json, body: Json, position: int = 0) -> bool:
        """Whether it was sealed like this with this very secret. Compares in constant time. The database may hold
        anything where a seal should be."""
        found = str(sealed).encode("utf-8", "surrogatepass")
        return isinstance(sealed, str) and hmac.compare_digest(self.of(kind, key, body, position).encode(), found)


def seal_of(tx: Tx) -> Seal:
    """The seal with which the store was opened. Fails without one: nothing can be written then that counts."""
    if not isinstance(tx.context, Seal):
        raise StoreError("The store was opened without the secret, and nothing that counts can be written without it.")
    return tx.context


def seal_in(context: object) -> Seal | None:
    """The seal of a store, if it has one. An agent's own store may have none, and commands that only show things need
    none."""
    return context if isinstance(context, Seal) else None
