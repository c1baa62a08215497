"""Signs answers for the plugin in front of an agent, with the secret that the plugin and the bot share."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from bot.confirmation.model import Ask, SessionKey
from bot.hosts.host import DeliveryUnknown, HostFailed
from bot.hosts.pauses import answer_part
from bot.hosts.reading import AdkRequest
from runtime.adk.signing import GOOD_FOR, UNSIGNED, SignedAnswer, SignedResponse
from runtime.confirming import Answer
from runtime.jsontypes import JsonObject
from runtime.wire import FunctionResponse, Part

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

    def lacks_secret(self, adk_request: AdkRequest | None) -> bool:
        return self._secret is None and _wants_signature(adk_request)

    def part(self, session: SessionKey, adk_request: AdkRequest | None, answer: Answer) -> Part | None:
        """The answer in ADK's form. If the plugin wants a signature, the hint contains it. None: there is nothing to
        send."""
        asked = None if adk_request is None else adk_request.asked
        response = (
            answer.as_part().function_response
            if asked is None
            else answer_part(asked, answer, adk_request.before if adk_request is not None else None)
        )
        if response is None:
            return None
        part = Part(function_response=response)
        if adk_request is None or self._secret is None or adk_request.ask in SIGNED_BESIDE:
            return part
        announced = adk_request.announcement
        if announced is None or not announced.signed:
            log.warning(NOT_WANTED)
            return part
        given = dict(response.response or {})
        verdict = SignedAnswer(
            app=self._app,
            user=session.user,
            session=session.id,
            request=answer.id if asked is None else asked.signed_name,
            tool=adk_request.request.call.name or "",
            arguments=adk_request.request.call.arguments,
            defaults=announced.defaults,
            confirmed=given.get("confirmed") is True,
            payload=given.get("payload"),
            nth=adk_request.answered,
        )
        given["hint"] = verdict.sign(self._secret, time.time() + GOOD_FOR)
        return Part(function_response=FunctionResponse(id=response.id, name=response.name, response=given))

    def signatures(
        self, session: SessionKey, adk_requests: Iterable[AdkRequest | None], parts: Iterable[Part]
    ) -> JsonObject:
        """The signatures of answers that have no room for one, by the id of what they answer."""
        signed: JsonObject = {}
        for adk_request, part in zip(adk_requests, parts, strict=True):
            asked, response = adk_request.asked if adk_request is not None else None, part.function_response
            if (
                self._secret is None
                or adk_request is None
                or asked is None
                or response is None
                or not _wants_signature(adk_request)
            ):
                continue
            if asked.ask in SIGNED_BESIDE:
                verdict = SignedResponse(
                    app=self._app,
                    user=session.user,
                    session=session.id,
                    request=asked.signed_name,
                    name=response.name or "",
                    response=response.response or {},
                    nth=adk_request.answered,
                )
                signed[asked.part_id] = verdict.sign(self._secret, time.time() + GOOD_FOR)
        return signed


def was_refused(cut: DeliveryUnknown) -> bool:
    """Whether the plugin refused the answer. The server may have wrapped the plugin's message."""
    return isinstance(cut, HostFailed) and UNSIGNED.partition(":")[0] in str(cut)


def _wants_signature(adk_request: AdkRequest | None) -> bool:
    return adk_request is not None and adk_request.announcement is not None and adk_request.announcement.signed
