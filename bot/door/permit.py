"""Permits: what a claimant gets to begin one attempt, and what anybody with the public key can check. Pure.

A permit is a JWS (RFC 7515) that is signed with the key of the checkpoints. It covers the approved arguments by the
SHA-256 of their canonical form (RFC 8785), which other programs can compute too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from decimal import Decimal

from adk_confirm.bot.audit.checkpoints import CheckpointKey, PublicKeys
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, NotJson, as_object, read_json

KIND = "adk-confirm-permit+jwt"
_HEADER: JsonObject = {"alg": "EdDSA", "typ": KIND}
_EXACT = 2**53
_DEEPEST = 64
CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of whoever checks a permit may be behind ours."""


def jcs(value: Json) -> str:
    """The value as RFC 8785 spells it. Raises `Invalid` for what has no such form.

    >>> jcs({"b": [1.0, 1e21, 0.000001], "a": "ü"})
    '{"a":"ü","b":[1,1e+21,0.000001]}'
    """
    match value:
        case dict():
            names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
            return "{" + ",".join(f"{jcs(name)}:{jcs(value[name])}" for name in names) + "}"
        case list():
            return "[" + ",".join(map(jcs, value)) + "]"
        case float():
            return _number(value)
        case int() if not isinstance(value, bool) and abs(value) > _EXACT:
            raise Invalid(f"{value} is too large a number for every reader of JSON: send it as a text.")
        case str() if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Invalid("A text holds half of a surrogate pair.")
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as JavaScript spells it: Python finds the same digits, and writes them in other forms."""
    if value == 0:
        return "0"
    sign, figures, power = Decimal(repr(value)).as_tuple()
    assert isinstance(power, int)
    point, digits = len(figures) + power, "".join(map(str, figures)).rstrip("0")
    if 0 < point <= 21:
        said = digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        said = f"0.{'0' * -point}{digits}"
    else:
        said = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return "-" * sign + said


def digest(value: Json) -> str:
    return hashlib.sha256(jcs(value).encode()).hexdigest()


def sign_permit(claims: JsonObject, key: CheckpointKey) -> str:
    said = ".".join(_encoded(json.dumps(part).encode()) for part in (_HEADER, claims))
    return f"{said}.{_encoded(bytes.fromhex(key.sign(said)))}"


def read_permit(permit: str, keys: PublicKeys, now: float, arguments: JsonObject | None = None) -> JsonObject:
    """What a permit says, if one of the keys signed it, it is in time, and it is for these arguments. Raises `Invalid`
    with a sentence otherwise."""
    said, _, signature = permit.strip().rpartition(".")
    try:
        header, claims = (as_object(read_json(_decoded(part).decode(), _DEEPEST)) for part in said.split("."))
        signed = _decoded(signature).hex()
    except (ValueError, NotJson) as error:
        raise Invalid("This is no permit: a permit is three parts with dots between.") from error
    if header != _HEADER or not keys.fit(signed, said):
        raise Invalid("The permit was not signed with this key, or was changed since. Do not run anything with it.")
    begins, ends = claims.get("nbf"), claims.get("exp")
    if not isinstance(begins, int) or not isinstance(ends, int) or not begins - CLOCKS_DIFFER <= now < ends:
        raise Invalid("The permit is not valid at this time. Ask again, or look what became of the call.")
    if arguments is not None and claims.get("arguments_sha256") != digest(arguments):
        raise Invalid("The permit is for other arguments than these. Run the call with those that were approved.")
    return claims


def _encoded(plain: bytes) -> str:
    return base64.urlsafe_b64encode(plain).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    if not text.isascii() or "=" in text:
        raise ValueError("not base64url")
    plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _encoded(plain) != text:  # Python's reader skips what is none of its letters
        raise ValueError("not base64url")
    return plain
