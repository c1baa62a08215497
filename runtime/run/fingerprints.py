"""Fingerprints (keyed digests) of stored calls: nobody without the key can change in the database what runs.

A held call is checked when its approval comes. A call that is about to begin, or that ran when its process died, is
checked when work on the session resumes. A runner without a key seals nothing and checks nothing.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.calls.call import ALTERED, INTERRUPTED, Call, CallState, Finish, Lose, Refuse, step
from runtime.jsontypes import Json, canonical
from runtime.store.records import CALL, SessionId
from runtime.store.transaction import Tx

Sealer = Callable[[Json], str]
"""Computes the fingerprint of a JSON value."""

StartCheck = Callable[[Tx, SessionId, Call, bool], bool]
"""Decides whether an approved call may begin. Called in the transaction that stores the beginning. The flag: the call
began before, its process died, and its tool can be repeated."""


@dataclass(frozen=True)
class CallGuard:
    """Protects stored calls from changes. Without a key, nothing is sealed or checked."""

    sealer: Sealer | None = None
    may_start: StartCheck | None = None


@dataclass(frozen=True)
class CallFingerprints:
    """Makes and checks the fingerprints of one session's stored calls. A call whose fingerprint fits is sealed."""

    sealer: Sealer | None
    session: SessionId

    def seal(self, call: Call) -> Call:
        return replace(call, seal=None if self.sealer is None else self._digest(self.sealer, call))

    def is_altered(self, call: Call, *, required: bool) -> bool:
        """`required`: a call without a fingerprint counts as altered. A held call may be older than the key; its
        approval says what may run."""
        if self.sealer is None or (call.seal is None and not required):
            return False
        # As bytes, since `compare_digest` accepts only ASCII texts, and the database may hold anything.
        stored = (call.seal or "").encode("utf-8", "surrogatepass")
        return not hmac.compare_digest(stored, self._digest(self.sealer, call).encode())

    def check(self, call: Call, now: float) -> Call:
        """The call, if its fingerprint fits. Otherwise, a call that was about to begin is refused. One that ran before
        may have taken effect with unknown arguments, so it becomes unknown."""
        if call.state not in (CallState.READY, CallState.RUNNING) or not self.is_altered(call, required=True):
            return call
        if call.state is CallState.READY:
            return replace(step(call, Refuse(ALTERED), now), told=False)
        event = (
            Lose() if call.request is not None else Finish({"error": INTERRUPTED})
        )  # without one, nobody can answer it
        return replace(step(call, event, now), told=False)

    def _digest(self, sealer: Sealer, call: Call) -> str:
        body: Json = json.loads(CALL.dump_json(replace(call, seal=None)))
        return sealer([self.session.app, self.session.user_id, self.session.id, canonical(body)])


def refuse_to_start(call: Call, now: float) -> Call:
    """Refuses a call before it began."""
    ready = replace(call, state=CallState.READY, attempt=call.attempt - 1)
    return replace(step(ready, Refuse(ALTERED), now), told=False)
