"""The bot's side of our google-adk plugin: signs answers for it, and asks whether it is there."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any

from adk_confirm.bot.confirmation.confirmation import Ask
from adk_confirm.bot.hosts.asked import AdkRequest, answer_part
from adk_confirm.bot.hosts.host import DeliveryUnknown, HostFailed
from adk_confirm.runtime.adk.signing import GOOD_FOR, PLUGIN, PluginSays, SignedAnswer, SignedResponse, plugin_question
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.wire import FunctionCall, FunctionResponse, Part, SessionId

NOT_SIGNED = (
    "The agent's server accepts only signed answers, and this app has no secret to sign with. Whoever runs it sets "
    "`secret_env` in [agent] to the plugin's secret; until then nothing runs."
)
NOT_TAKEN = (
    "The agent's server refuses answers: its plugin has another secret than this app, or their clocks are ten "
    "minutes apart. Whoever runs it gives both the same secret (`secret_env` in [agent]); until then nothing runs."
)
NOT_WANTED = (
    "The agent's server asks for no signature, although [agent] secret_env is set: its plugin is missing, or has no "
    "secret. Whoever reaches the server can answer in place of the people in Slack."
)
PORT = (
    "Whoever reaches its port can answer in place of the people here. The bot notices this and says so, but can't "
    "prevent it. Protect the port, or use our plugin with a secret."
)
DENIALS = (
    "The server may not keep to a denial: a tool that asks in its own body, or whose rule now answers otherwise, may "
    "run after a denial. The bot notices this and says so. Our plugin prevents it."
)
EDITS = "Only a payload that a tool asks for can be edited; any other edit becomes a denial that says what people want."

OUR_PORT = (
    "Whoever reaches its port and has its token can answer in place of the people here. The bot notices this and says "
    "so, but can't prevent it. Protect both."
)
BROKEN = "If the connection breaks, nobody may know whether a call took effect. People are asked then."
TOGETHER = (
    "Answers to one agent go to it together: an approval waits until everything that the agent asked in that turn is "
    "decided."
)

SIGNED_BESIDE = (Ask.INPUT, Ask.OPERATION)
"""Answers to these have no room for a signature, so it is sent next to them."""

PREVENTS = {
    None: (),
    PluginSays.OPEN: (DENIALS, EDITS),
    PluginSays.NOT_SIGNED: (DENIALS, EDITS, PORT),
    PluginSays.FITS: (DENIALS, EDITS, PORT),
}
"""The notes that do not apply to a server whose plugin says this of itself."""

log = logging.getLogger(__name__)


class Signer:
    def __init__(self, app: str, secret: str | None) -> None:
        self._app, self._secret = app, secret

    async def ask_plugin(self, why_not: Callable[[SessionId, FunctionCall], Awaitable[str]]) -> PluginSays | None:
        """Whether the plugin wants signatures, and accepts ours. None if it is not there, or too old to be asked."""
        session = SessionId(self._app, "adk-confirm", f"check-{token_hex(8)}")
        question = plugin_question(self._app, session.user_id, session.id)
        signed = question.sign(self._secret, time.time() + GOOD_FOR) if self._secret is not None else ""
        said = await why_not(session, FunctionCall(id=PLUGIN, name=PLUGIN, args={"signed": signed}))
        return next((one for one in PluginSays if one in said), None)

    def lacks_secret(self, asks: AdkRequest) -> bool:
        return self._secret is None and asks.announced.signed

    def sign(self, session: SessionId, asks: AdkRequest, answer: Answer) -> tuple[Part, JsonObject] | None:
        """The answer in ADK's form, and the signature to send beside it, by the id of the part that is signed. If the
        plugin wants a signature, an answer to a confirmation has it in its hint, and only others have it beside them.
        None if there is nothing to send."""
        response, announced, beside = answer_part(asks, answer), asks.announced, asks.ask in SIGNED_BESIDE
        if response is None:
            return None
        if self._secret is None or not announced.signed:
            if self._secret is not None and not beside:
                log.warning(NOT_WANTED)
            return Part(function_response=response), {}
        given, until = dict(response.response or {}), time.time() + GOOD_FOR
        about: dict[str, Any] = {"app": self._app, "user": session.user_id, "session": session.id}
        about |= {"request": asks.request.id, "nth": asks.answered}
        if beside:
            response_to = SignedResponse(**about, name=response.name or "", response=given)
            return Part(function_response=response), {asks.part_id: response_to.sign(self._secret, until)}
        verdict = SignedAnswer(
            **about,
            tool=asks.request.call.name or "",
            arguments=asks.request.call.arguments,
            defaults=announced.defaults,
            confirmed=given.get("confirmed") is True,
            payload=given.get("payload"),
            preview=announced.preview,
        )
        given["hint"] = verdict.sign(self._secret, until)
        return Part(function_response=FunctionResponse(id=response.id, name=response.name, response=given)), {}


def was_refused(cut: DeliveryUnknown) -> bool:
    """Whether the plugin refused the answer. The server may have wrapped the plugin's message."""
    return isinstance(cut, HostFailed) and PluginSays.NOT_SIGNED in cut.words
