"""What a bot and the plugin in front of an agent tell each other beside ADK's protocol. Pure; no google import.

In the `customMetadata` of events: the plugin announces itself with a request, and a bot marks what it says, where the
server keeps that. An answer is signed in its `hint`, the one key of an answer that ADK takes and never looks at.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from runtime.jsontypes import Json, JsonObject, canonical

MARK = "adkConfirmMark"
ANNOUNCED = "adkConfirm"
_SIGNED = "adk-confirm v1 "


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """What the plugin says of one held call: whether a gate holds it (an edit of its arguments reaches the tool), its
    schema, the payload's schema, and whether answers have to be signed."""

    gated: bool
    signed: bool = False
    schema: JsonObject | None = None
    payload_schema: JsonObject | None = None

    def as_json(self) -> JsonObject:
        told: JsonObject = {"gated": self.gated, "signed": self.signed}
        if self.schema is not None:
            told["schema"] = self.schema
        if self.payload_schema is not None:
            told["payloadSchema"] = self.payload_schema
        return told


def announcing(calls: dict[str, Announcement]) -> JsonObject:
    """The metadata of an event that asks, by the ids of its calls."""
    return {ANNOUNCED: {"calls": {call: announcement.as_json() for call, announcement in calls.items()}}}


def announced(metadata: JsonObject | None, call_id: str) -> Announcement | None:
    """What the plugin said of this call; None where there is no plugin."""
    calls = _object(_object((metadata or {}).get(ANNOUNCED)).get("calls"))
    told = _object(calls.get(call_id))
    if not told:
        return None
    return Announcement(
        gated=told.get("gated") is True,
        signed=told.get("signed") is True,
        schema=_object(told.get("schema")) or None,
        payload_schema=_object(told.get("payloadSchema")) or None,
    )


@dataclass(frozen=True)
class Verdict:
    """What is signed: this answer to this request of this session, and no other."""

    app: str
    user: str
    session: str
    request: str
    confirmed: bool
    payload: Json = None

    def sign(self, secret: str) -> str:
        text = canonical([self.app, self.user, self.session, self.request, self.confirmed, self.payload])
        return _SIGNED + hmac.new(secret.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def signed_by(self, secret: str, signature: object) -> bool:
        return isinstance(signature, str) and hmac.compare_digest(self.sign(secret).encode(), signature.encode())


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
