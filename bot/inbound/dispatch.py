"""Bolt for HTTP and Socket Mode alike. It measures how long each ack takes, and lets people's clicks go first."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import Any, Protocol

from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.leasing.backpressure import Backpressure

_WAYS = {
    "block_actions": "button",
    "view_submission": "form",
    "shortcut": "shortcut",
    "message_action": "shortcut",
}


logging.getLogger("slack_bolt.AsyncApp").addFilter(
    # Bolt finds SLACK_BOT_TOKEN in the environment by itself, and warns that it does without it: that is meant.
    lambda record: not str(record.msg).startswith("As you gave `client` as well")
)


class AckMeter(Protocol):
    def acked(self, way: str, seconds: float, *, stored: bool) -> None: ...


class TimedApp(AsyncApp):
    """Bolt, with a meter for acks. Background work waits while a click is being answered."""

    def __init__(self, meter: AckMeter, clicks: Backpressure, **settings: Any) -> None:  # Bolt's own
        super().__init__(**settings)
        self._meter, self._clicks = meter, clicks

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        way = _way(req)
        if way is None:
            return await super().async_dispatch(req)
        began = time.perf_counter()
        with self._clicks.given():
            answer = await super().async_dispatch(req)
        if answer.status in (HTTPStatus.OK, HTTPStatus.INTERNAL_SERVER_ERROR):
            self._meter.acked(way, time.perf_counter() - began, stored=answer.status == HTTPStatus.OK)
        return answer


def _way(req: AsyncBoltRequest) -> str | None:
    """How somebody acted. None for an event, since nobody waits for its ack."""
    if "command" in req.body:
        return "command"
    return _WAYS.get(str(req.body.get("type")))
