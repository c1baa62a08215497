"""What an interaction gives the app for a time: a trigger id (3 s, once) and a response URL (30 min, five times)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeVar

from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.clock import Clock

TRIGGER_LIVES = 3.0
HOOK_LIVES = 30 * 60.0
HOOK_USES = 5
_KEPT = 10_000
T = TypeVar("T")


@dataclass(slots=True)
class Trigger:
    id: str
    team_id: str
    user: str
    issued: float
    used: bool = False


@dataclass(slots=True)
class Hook:
    """What a response URL may touch: one channel, the message it came from, and the person who acted."""

    secret: str
    team_id: str
    channel_id: str
    user: str
    message_ts: str
    thread_ts: str
    issued: float
    uses: int = 0


class Tickets:
    trigger_lives = TRIGGER_LIVES
    """Tests raise it: on a busy machine an app may need longer than Slack allows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._triggers: dict[str, Trigger] = {}
        self._hooks: dict[str, Hook] = {}

    def trigger(self, team_id: str, user: str) -> str:
        made = Trigger(f"1.2.{secrets.token_hex(16)}", team_id, user, self._clock.now())
        self._triggers[made.id] = made
        _forget_oldest(self._triggers)
        return made.id

    def check(self, trigger_id: str, team_ids: frozenset[str]) -> Trigger:
        """The trigger, if it is still valid. Mark it as `used` only when nothing else can be refused."""
        found = self._triggers.get(trigger_id)
        if found is None or found.team_id not in team_ids:
            raise ApiRefusal("invalid_trigger_id")
        if found.used:
            raise ApiRefusal("exchanged_trigger_id")
        if self._clock.now() - found.issued > self.trigger_lives:
            raise ApiRefusal("expired_trigger_id")
        return found

    def hook(self, team_id: str, channel_id: str, user: str, message_ts: str = "", thread_ts: str = "") -> Hook:
        made = Hook(secrets.token_hex(12), team_id, channel_id, user, message_ts, thread_ts, issued=self._clock.now())
        self._hooks[made.secret] = made
        _forget_oldest(self._hooks)
        return made

    def use(self, secret: str) -> Hook:
        """One use of a response URL, if it has one left."""
        found = self._hooks.get(secret)
        if found is None:
            raise ApiRefusal("no_hook", status=404)
        if self._clock.now() - found.issued > HOOK_LIVES:
            raise ApiRefusal("expired_url", status=404)
        if found.uses >= HOOK_USES:
            raise ApiRefusal("used_url", status=404)
        found.uses += 1
        return found


def _forget_oldest(kept: dict[str, T]) -> None:
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
