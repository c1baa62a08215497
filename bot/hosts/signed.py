"""Answers as the plugin in front of an agent wants them: signed with the secret that it and the bot know."""

from __future__ import annotations

import logging

from bot.confirmation.model import SessionKey
from bot.hosts.host import Cut, Failed
from bot.hosts.reading import ForeignRequest
from runtime.adk.signing import UNSIGNED, SignedAnswer
from runtime.confirming import Answer
from runtime.wire import FunctionResponse, Part

NOT_SIGNED = (
    "The agent's server takes signed answers only, and this app has no secret to sign with. Whoever runs it sets "
    "`secret_env` in [agent] to the plugin's secret; until then nothing runs."
)
NOT_TAKEN = (
    "The agent's server refused the answer: its plugin has another secret than this app. Whoever runs it gives both "
    "the same one (`secret_env` in [agent]); until then nothing runs."
)
NOT_WANTED = (
    "The agent's server asks for no signature, although [agent] secret_env is set: its plugin is missing, or has no "
    "secret. Whoever reaches the server can answer in place of the people in Slack."
)
MENDED_BY_PEOPLE = 60.0

log = logging.getLogger(__name__)


class Signer:
    def __init__(self, app: str, secret: str | None) -> None:
        self._app, self._secret = app, secret

    def lacks_secret(self, asking: ForeignRequest | None) -> bool:
        return self._secret is None and _wants(asking)

    def part(self, session: SessionKey, asking: ForeignRequest | None, answer: Answer) -> Part:
        """The answer as every ADK takes it; where the plugin wants it, signed in its hint."""
        part = answer.as_part()
        response = part.function_response
        assert response is not None
        if asking is None or self._secret is None:
            return part
        if not _wants(asking):
            log.warning(NOT_WANTED)
            return part
        given = dict(response.response or {})
        verdict = SignedAnswer(
            app=self._app,
            user=session.user,
            session=session.id,
            request=answer.id,
            tool=asking.request.call.name or "",
            arguments=asking.request.call.arguments,
            confirmed=given.get("confirmed") is True,
            payload=given.get("payload"),
            nth=len(asking.given),
        )
        given["hint"] = verdict.sign(self._secret)
        return Part(function_response=FunctionResponse(id=answer.id, name=response.name, response=given))


def was_refused(cut: Cut) -> bool:
    """Whether the plugin said so, in whatever else the server put around it."""
    return isinstance(cut, Failed) and UNSIGNED.partition(":")[0] in str(cut)


def _wants(asking: ForeignRequest | None) -> bool:
    return asking is not None and asking.announcement is not None and asking.announcement.signed
