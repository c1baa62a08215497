"""Slack's refusals: `ok: false` with a code, and sometimes the place of the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.errors import ConfirmError
from runtime.jsontypes import Json, JsonObject


class ApiRefusal(ConfirmError):
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
