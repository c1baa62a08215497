"""What people gave to sign in, until their agents have it: in this process's memory, and nowhere else.

What an agent says may quote it, and so may an error of its server. So this process hides it in the texts that it passes
on, for as long as it remembers it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bot.confirmation.sign_in import HOLDER, Credential
from bot.policy.redaction import MASK
from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject

REMEMBERED = 24 * 3600.0
MOST = 1000
SHORTEST_HIDDEN = 4
"""Shorter than this a secret is a word like any other."""


class SignIns:
    """`holder` names this process among the replicas."""

    def __init__(self, holder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._holder, self._clock = holder, clock
        self._given: dict[str, tuple[Credential, float]] = {}  # by the vote that brought it, with when
        self._secrets: dict[str, float] = {}  # with when each was given

    @property
    def holder(self) -> str:
        return self._holder

    @property
    def holds_any(self) -> bool:
        return bool(self._given)

    def keep(self, vote: str, credential: Credential) -> JsonObject:
        """What the vote says about where its credential is."""
        self._forget_old()
        self._given[vote] = credential, self._clock()
        self._secrets.update(dict.fromkeys(credential.secrets, self._clock()))
        while len(self._given) > MOST:
            del self._given[next(iter(self._given))]
        return {HOLDER: self._holder}

    def of(self, vote: str) -> Credential | None:
        found = self._given.get(vote)
        return None if found is None else found[0]

    def forget(self, vote: str) -> None:
        """The agent has it, or does not want it any more. It is still hidden in texts."""
        self._given.pop(vote, None)

    def hide(self, text: str) -> str:
        """The text without anything that people gave."""
        for secret in self._secrets:
            if len(secret) >= SHORTEST_HIDDEN and secret in text:
                text = text.replace(secret, MASK)
        return text

    def hide_in(self, error: ConfirmError) -> None:
        """The same for the message of an error."""
        error.args = tuple(self._in_args(error.args))

    def _in_args(self, args: tuple[object, ...]) -> Iterator[object]:
        return (self.hide(one) if isinstance(one, str) else one for one in args)

    def _forget_old(self) -> None:
        oldest = self._clock() - REMEMBERED
        self._given = {vote: given for vote, given in self._given.items() if given[1] > oldest}
        self._secrets = {secret: at for secret, at in self._secrets.items() if at > oldest}
