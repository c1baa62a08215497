"""Remembers which features a workspace accepts, of those that Slack rolls out in phases. A refused feature is not tried
for an hour."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import Gone, RefusedBySlack, SlackTrouble
from bot.store.refused_features import REMEMBERED, note_refused_feature
from runtime.errors import StoreError
from runtime.store.database import Database

log = logging.getLogger(__name__)


class Feature(StrEnum):
    """The values are texts for people, in the log and in `check`."""

    STATUS = "thread status"
    STREAM = "streamed replies"
    SESSION = "agent sessions"
    PROMPTS = "suggested prompts"
    TASKS = "tool calls in replies"
    TABLE = "table blocks"
    CONTAINER = "container blocks"
    ALERT = "alert blocks"


INSTEAD = {
    Feature.STATUS: "threads do not show that the agent is at work",
    Feature.STREAM: "replies are messages that are edited while they grow",
    Feature.SESSION: "threads show the agent's status the older way, without a stop button",
    Feature.PROMPTS: "the direct message shows no prompts",
    Feature.TASKS: "replies are streamed without the tool calls that lead to them",
    Feature.TABLE: "lists of objects on cards are lines",
    Feature.CONTAINER: "cards of calls that are over show their details unfolded",
    Feature.ALERT: "warnings in forms are plain text",
}

_EVERYWHERE = frozenset(
    {
        "unknown_method", "missing_scope", "not_allowed", "not_allowed_token_type", "feature_not_enabled",
        "not_an_agent", "method_deprecated", "invalid_blocks", "invalid_blocks_format", "invalid_chunks",
    }
)  # fmt: skip
"""These refusals hold for the whole workspace. Any other holds for one channel."""


class FeatureSupport:
    """Remembers refusals for an hour, and logs each once. With a `database`, `adk-confirm check` can read them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, database: Database | None = None) -> None:
        self._clock, self._database = clock, database
        self._refused_at: dict[tuple[str, Feature, str], float] = {}
        self._accepted_at: dict[tuple[str, Feature], float] = {}

    def accepts(self, at: Workspace, feature: Feature, channel: str = "") -> bool:
        now = self._clock()
        keys = ((at.team, feature, where) for where in ("", channel))
        return all(now >= self._refused_at.get(key, float("-inf")) + REMEMBERED for key in keys)

    def note_accepted(self, at: Workspace, feature: Feature) -> None:
        self._accepted_at[at.team, feature] = self._clock()

    def is_proven(self, at: Workspace, feature: Feature) -> bool:
        """Whether Slack accepted it within the last hour: for places where a refusal would go unnoticed."""
        accepted = self._accepted_at.get((at.team, feature), float("-inf"))
        return self.accepts(at, feature) and self._clock() < accepted + REMEMBERED

    async def note_refusal(self, at: Workspace, feature: Feature, trouble: SlackTrouble, channel: str = "") -> bool:
        """Remembers the error if it was a refusal, and returns whether it was."""
        if not isinstance(trouble, Gone | RefusedBySlack):
            return False
        where = "" if trouble.code in _EVERYWHERE else channel
        key = (at.team, feature, where)
        level = logging.INFO if key in self._refused_at else logging.WARNING
        self._refused_at[key] = self._clock()
        place = f"{at.team} {where}".rstrip()
        log.log(level, "Slack refuses %s in %s (%s): %s.", feature, place, trouble.code, INSTEAD[feature])
        if self._database is not None:
            try:
                await self._database.run(note_refused_feature, at.team, str(feature), where, trouble.code)
            except StoreError as error:
                log.warning("check will not know of this: %s", error)
        return True
