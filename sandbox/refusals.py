"""What the local Slack refuses: to an app with `ok: false`, a code and sometimes the place of the error; to a person's
player with a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adk_confirm.sandbox.reading import Json, JsonObject


class Refused(Exception):
    """The sentence says what can't be done."""


class Invalid(Refused):
    """It makes no sense."""


class Forbidden(Refused):
    """This person may not do it."""


class NotFound(Refused):
    """There is nothing of this name here."""


class ApiRefusal(Refused):
    """The Web API's `{"ok": false, "error": code}`."""

    def __init__(
        self,
        code: str,
        *,
        messages: Sequence[str] = (),
        extra: Mapping[str, Json] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.messages = tuple(messages)
        self.extra = dict(extra or {})
        self.status = status
        self.headers = dict(headers or {})
        super().__init__(f"Slack refuses this with {code}" + (f": {'; '.join(messages)}" if messages else "."))

    def body(self) -> JsonObject:
        answer: JsonObject = {"ok": False, "error": self.code, **self.extra}
        if self.messages:
            answer["response_metadata"] = {"messages": list(self.messages)}
        return answer
