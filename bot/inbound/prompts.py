"""Suggests prompts, which Slack shows in the direct message with an agent."""

from __future__ import annotations

import logging

from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import SlackTrouble
from bot.slack.outbound.methods import SUGGEST_PROMPTS
from runtime.jsontypes import JsonObject

log = logging.getLogger(__name__)

LONGEST_TITLE = 60
_DONT_WAIT = 0.0


class Prompts:
    def __init__(self, sender: Sender, prompts: tuple[str, ...]) -> None:
        self._sender = sender
        self._prompts: list[JsonObject] = [{"title": _short(one), "message": one} for one in prompts]

    @property
    def wanted(self) -> bool:
        """Whether there are prompts to suggest."""
        return bool(self._prompts)

    async def suggest(self, channel: str) -> None:
        """Suggests the prompts. Errors are ignored, since nobody waits for them."""
        args: JsonObject = {"channel_id": channel, "prompts": [*self._prompts]}
        try:
            await self._sender.ask(
                SUGGEST_PROMPTS,
                lambda client: client.api_call(SUGGEST_PROMPTS.name, json=args),
                patience=_DONT_WAIT,
            )
        except SlackTrouble as trouble:
            log.info("no prompts are suggested: %s", trouble)


def _short(prompt: str) -> str:
    """
    >>> _short("Deploy checkout")
    'Deploy checkout'
    >>> _short("word " * 20)
    'word word word word word word word word word word word word…'
    """
    if len(prompt) <= LONGEST_TITLE:
        return prompt
    return f"{prompt[: LONGEST_TITLE - 1].rstrip()}…"
