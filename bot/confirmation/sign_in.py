"""Sign-ins: what a request for a credential asks of its person, and the address to sign in at. Pure.

An OAuth request carries a `state` of the agent's. In the address that a person gets, our own `state` replaces it: it
names the confirmation and its revision, and only this app can make it. When the person returns it is checked, and the
agent's `state` is put back. A credential is never part of a row: see `Credential`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit, urlunsplit

from blocks.ids import Ref, parse_ref
from bot.audit.fingerprint import Fingerprints, same_fingerprint
from bot.confirmation.model import Confirmation
from runtime.jsontypes import Json, JsonObject, as_object

CALLBACK = "/adk/oauth/callback"
LOCAL = f"http://localhost{CALLBACK}"
"""Where a browser is sent if there is no public address. There is no page: people copy the address that their browser
shows."""

BY_SIGNING_IN = "sign-in"
"""The `way` of a vote that brought a credential."""
HOLDER = "holder"
"""In a vote's target: the process that has the credential."""


class SignInMethod(StrEnum):
    """How a person signs in to the service that an agent uses."""

    OAUTH = "oauth"
    KEY = "api key"
    TOKEN = "token"  # noqa: S105  (a kind, no token)
    PASSWORD = "password"  # noqa: S105  (a kind, no password)


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """A request for a credential. `redirect_uri`: where the agent sends the browser, if it says so."""

    way: SignInMethod
    auth_uri: str = ""
    redirect_uri: str = ""

    def to_json(self) -> JsonObject:
        return {"way": str(self.way), "authUri": self.auth_uri, "redirectUri": self.redirect_uri}

    @classmethod
    def of(cls, row: Confirmation) -> SignIn:
        stored: Json = row.asked.payload
        parts = as_object(stored)
        return cls(
            way=SignInMethod(str(parts.get("way"))),
            auth_uri=str(parts.get("authUri") or ""),
            redirect_uri=str(parts.get("redirectUri") or ""),
        )


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What a person gave: the address at which they returned, a key, a token, or a password. It stays in the memory of
    the process that received it until the agent gets it. No `repr` shows it."""

    way: SignInMethod
    value: str = field(repr=False)
    username: str = field(default="", repr=False)
    redirect_uri: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every value that must never be shown."""
        parts = {self.value}
        if self.way is SignInMethod.OAUTH:
            query = urlsplit(self.value).query
            codes = (piece.partition("=")[2] for piece in query.split("&") if piece.startswith("code="))
            parts |= {spelled for code in codes for spelled in (code, unquote_plus(code))}
        return tuple(sorted((part for part in parts if part), key=len, reverse=True))


def callback_at(public_url: str | None) -> str | None:
    return f"{public_url.rstrip('/')}{CALLBACK}" if public_url else None


@dataclass(frozen=True)
class SignInAddresses:
    """The addresses for signing in. `public_url`: where browsers reach this app, or None."""

    fingerprints: Fingerprints
    public_url: str | None

    def of(self, row: Confirmation) -> str | None:
        """Where the person signs in; None if they type the credential into a form."""
        sign_in = SignIn.of(row)
        if sign_in.way is not SignInMethod.OAUTH:
            return None
        parts = urlsplit(sign_in.auth_uri)
        own = {"redirect_uri": self._redirect(sign_in), "state": self._state_of(row)}
        return urlunsplit(parts._replace(query=_with_values(parts.query, own)))

    def comes_back(self, row: Confirmation) -> bool:
        """Whether the browser returns to this app. If not, the person copies the address into a form."""
        sign_in = SignIn.of(row)
        return sign_in.way is SignInMethod.OAUTH and self._redirect(sign_in) == callback_at(self.public_url)

    def is_for(self, row: Confirmation, state: str) -> bool:
        """Whether this app made this state for this confirmation, its person and its revision."""
        return same_fingerprint(self._state_of(row), state)

    def is_redirect(self, row: Confirmation, url: str) -> bool:
        """Whether this is the address to which the browser was sent."""
        there, wanted = urlsplit(url), urlsplit(self._redirect(SignIn.of(row)))
        return (there.scheme, there.netloc, there.path or "/") == (wanted.scheme, wanted.netloc, wanted.path or "/")

    def credential(self, row: Confirmation, query: str) -> Credential:
        """The credential from the address to which the person returned, with the agent's own state put back."""
        sign_in = SignIn.of(row)
        redirect, own = self._redirect(sign_in), query_of(sign_in.auth_uri).get("state")
        came_to = urlunsplit(urlsplit(redirect)._replace(query=_with_values(query, {"state": own})))
        return Credential(way=SignInMethod.OAUTH, value=came_to, redirect_uri=redirect)

    def redirect(self, row: Confirmation) -> str:
        """Where the browser is sent after the sign-in."""
        return self._redirect(SignIn.of(row))

    def _redirect(self, sign_in: SignIn) -> str:
        return sign_in.redirect_uri or callback_at(self.public_url) or LOCAL

    def _state_of(self, row: Confirmation) -> str:
        person = row.asked.asked_by
        about: Json = [row.id, row.revision.number, row.revision.fingerprint, person.team, person.user]
        return f"{Ref(row.id, row.revision.number).encode()}.{self.fingerprints.within('sign-in').of(about)}"


def ref_in(state: str) -> Ref | None:
    """The confirmation that a state names. `SignInAddresses.is_for` says whether that is true."""
    return parse_ref(state.rpartition(".")[0])


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _with_values(query: str, own: Mapping[str, str | None]) -> str:
    """Sets these values in the query, and removes those that are None. Everything else stays spelled as it was, since a
    code must not change by a letter."""
    kept = [piece for piece in query.split("&") if piece and piece.partition("=")[0] not in own]
    return "&".join([*kept, *(f"{name}={quote(value, safe='')}" for name, value in own.items() if value is not None)])
