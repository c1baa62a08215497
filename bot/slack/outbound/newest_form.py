"""Sends blocks in their newest form, and in today's form at once if the workspace refuses the newer blocks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from blocks.newer import Newer, accept_nothing, kinds, newest_form, newest_view
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import RefusedBySlack, SlackTrouble
from bot.slack.outbound.feature_support import Feature, FeatureSupport
from runtime.jsontypes import JsonObject

R = TypeVar("R")

FEATURES = {Newer.TABLE: Feature.TABLE, Newer.CONTAINER: Feature.CONTAINER, Newer.ALERT: Feature.ALERT}

_NOT_TAKEN = frozenset({"invalid_arguments", "invalid_attachments", "invalid_blocks", "invalid_blocks_format"})
"""Slack's errors for a block that it does not know, or does not allow there."""


class NewestForm:
    def __init__(self, features: FeatureSupport) -> None:
        self._features = features

    async def send(
        self, at: Workspace, blocks: Sequence[JsonObject], send: Callable[[list[JsonObject]], Awaitable[R]]
    ) -> R:
        """Sends the newest form, and remembers a refusal. If Slack refuses the old form as well, the newer blocks are
        not to blame."""
        chosen = newest_form(blocks, lambda kind: self._features.accepts(at, FEATURES[kind]))
        newer = kinds(chosen)
        try:
            answer = await send(chosen)
        except RefusedBySlack as refused:
            if not newer or refused.code not in _NOT_TAKEN:
                raise
            return await self._send_plain(
                at, send, newest_form(blocks, accept_nothing), _refused_kinds(chosen, refused), refused
            )
        for kind in newer:
            self._features.note_accepted(at, FEATURES[kind])
        return answer

    async def _send_plain(
        self,
        at: Workspace,
        send: Callable[[list[JsonObject]], Awaitable[R]],
        blocks: list[JsonObject],
        blamed: frozenset[Newer],
        refused: RefusedBySlack,
    ) -> R:
        try:
            answer = await send(blocks)
        except RefusedBySlack:
            raise
        except SlackTrouble:
            await self._remember(at, blamed, refused)
            raise
        await self._remember(at, blamed, refused)
        return answer

    async def _remember(self, at: Workspace, blamed: frozenset[Newer], refused: RefusedBySlack) -> None:
        for kind in sorted(blamed):
            await self._features.note_refusal(at, FEATURES[kind], refused)

    def in_an_ack(self, at: Workspace, view: JsonObject) -> JsonObject:
        """The view for an ack. Refusals of these go unnoticed, so it has only newer blocks that Slack accepted
        lately."""
        return newest_view(view, lambda kind: self._features.is_proven(at, FEATURES[kind]))


def _refused_kinds(blocks: Sequence[JsonObject], refused: RefusedBySlack) -> frozenset[Newer]:
    """The newer blocks that Slack points at, or all of them if it points at none."""
    found = (re.search(r"/blocks/(\d{1,3})(?:/|$)", place) for place in refused.places)
    named = kinds([blocks[int(one[1])] for one in found if one and int(one[1]) < len(blocks)])
    return named or kinds(blocks)
