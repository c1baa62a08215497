"""Signs answers for the plugin in front of an agent, with the secret that the plugin and the bot share."""

from __future__ import annotations

import logging
import time

from adk_confirm.bot.confirmation.model import Ask, SessionKey
from adk_confirm.bot.hosts.asked import AdkRequest, answer_part
from adk_confirm.bot.hosts.host import DeliveryUnknown, HostFailed
from adk_confirm.runtime.adk.signing import GOOD_FOR, UNSIGNED, SignedAnswer, SignedResponse
from adk_confirm.runtime.confirming import Answer
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import FunctionResponse, Part

NOT_SIGNED = (
    "The agent's server accepts only signed answers, and this app has no secret to sign with. Whoever runs it sets "
    "`secret_env` in [agent] to the plugin's secret; until then nothing runs."
)
NOT_TAKEN = (
    "The agent's server refused the answer: its plugin has another secret than this app, or their clocks are ten "
    "minutes apart. Whoever runs it gives both the same secret (`secret_env` in [agent]); until then nothing runs."
)
NOT_WANTED = (
    "The agent's server asks for no signature, although [agent] secret_env is set: its plugin is missing, or has no "
    "secret. Whoever reaches the server can answer in place of the people in Slack."
)
MENDED_BY_PEOPLE = 60.0
SIGNED_BESIDE = (Ask.INPUT, Ask.OPERATION)
"""Answers to these have no room for a signature, so it is sent next to them."""

log = logging.getLogger(__name__)


class Signer:
    def __init__(self, app: str, secret: str | None) -> None:
        self._app, self._secret = app, secret

    def lacks_secret(self, asks: AdkRequest) -> bool:
        return self._secret is None and asks.announcement is not None and asks.announcement.signed

    def sign(self, session: SessionKey, asks: AdkRequest, answer: Answer) -> tuple[Part, JsonObject] | None:
        """The answer in ADK's form, and its signature by the id of what it answers, if it has no room for one. If the
        plugin wants a signature, the hint of an answer to a confirmation contains it. None: there is nothing to
        send."""
        response, announced, beside = answer_part(asks, answer), asks.announcement, asks.ask in SIGNED_BESIDE
        if response is None:
            return None
        if self._secret is None or announced is None or not announced.signed:
            if self._secret is not None and not beside:
                log.warning(NOT_WANTED)
            return Part(function_response=response), {}
        given, until = dict(response.response or {}), time.time() + GOOD_FOR
        if beside:
            response_to = SignedResponse(
                app=self._app,
                user=session.user,
                session=session.id,
                request=asks.request.id,
                name=response.name or "",
                response=given,
                nth=asks.answered,
            )
            return Part(function_response=response), {asks.part_id: response_to.sign(self._secret, until)}
        verdict = SignedAnswer(
            app=self._app,
            user=session.user,
            session=session.id,
            request=asks.request.id,
            tool=asks.request.call.name or "",
            arguments=asks.request.call.arguments,
            defaults=announced.defaults,
            confirmed=given.get("confirmed") is True,
            payload=given.get("payload"),
            nth=asks.answered,
        )
        given["hint"] = verdict.sign(self._secret, until)
        return Part(function_response=FunctionResponse(id=response.id, name=response.name, response=given)), {}


def was_refused(cut: DeliveryUnknown) -> bool:
    """Whether the plugin refused the answer. The server may have wrapped the plugin's message."""
    return isinstance(cut, HostFailed) and UNSIGNED.partition(":")[0] in str(cut)
