"""Credentials that people gave to sign in. They are kept only in this process's memory, until the agent has them.

An agent's reply or a server's error may quote a credential, so this process masks credentials in every text that it
passes on, for as long as it remembers them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bot.confirmation.sign_in import HOLDER, Credential
from bot.policy.redaction import MASK
from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject
from runtime.recent_dict import RecentDict

REMEMBERED = 24 * 3600.0
MOST = 1000
SHORTEST_HIDDEN = 4
"""A shorter secret is not masked, since it may be an ordinary word."""


class SignIns:
    """Remembers and masks credentials. `holder` names this process among the replicas."""

    def __init__(self, holder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._holder, self._clock = holder, clock
        # By vote id: the credential, and when it was given.
        self._given: RecentDict[str, tuple[Credential, float]] = RecentDict(MOST)
        self._secrets: dict[str, float] = {}  # secret: when it was given

    @property
    def holder(self) -> str:
        return self._holder

    @property
    def holds_any(self) -> bool:
        return bool(self._given)

    def keep(self, vote: str, credential: Credential) -> JsonObject:
        """Keeps a credential. Returns what the vote stores about where it is."""
        self._forget_old()
        self._given[vote] = credential, self._clock()
        self._secrets.update(dict.fromkeys(credential.secrets, self._clock()))
        return {HOLDER: self._holder}

    def of(self, vote: str) -> Credential | None:
        found = self._given.get(vote)
        return None if found is None else found[0]

    def forget(self, vote: str) -> None:
        """Forgets a credential that the agent has or no longer wants. Texts are still masked."""
        self._given.pop(vote, None)

    def hide(self, text: str) -> str:
        """The text with everything masked that people gave to sign in."""
        for secret in self._secrets:
            if len(secret) >= SHORTEST_HIDDEN and secret in text:
                text = text.replace(secret, MASK)
        return text

    def hide_in(self, error: ConfirmError) -> None:
        """Masks the message of an error in place."""
        error.args = tuple(self._in_args(error.args))

    def _in_args(self, args: tuple[object, ...]) -> Iterator[object]:
        return (self.hide(one) if isinstance(one, str) else one for one in args)

    def _forget_old(self) -> None:
        oldest = self._clock() - REMEMBERED
        for vote in [vote for vote, given in self._given.items() if given[1] <= oldest]:
            del self._given[vote]
        self._secrets = {secret: at for secret, at in self._secrets.items() if at > oldest}
