"""google-adk's requests for credentials: reads what they ask for, and builds their answers. Pure.

A request carries an `AuthConfig`, which may contain an OAuth client's secret. Only what the person has to know is taken
from it. The answer is the same `AuthConfig`, read from the session again when it is sent, with what the person gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from bot.confirmation.sign_in import Credential, SignIn, SignInMethod
from runtime.jsontypes import Json, JsonObject, as_object, as_text
from runtime.wire import FunctionCall

NODE = "wf_auth:"
"""The prefix of the id of a workflow node's request."""
SAYS_NOTHING = "Please complete the authentication flow."
"""The default texts of google-adk's workflows, which say nothing useful."""
TOOLSET = "_adk_toolset_auth_"
"""The prefix of the id of the call with which a whole toolset asks."""


@dataclass(frozen=True)
class AskedCredential:
    """A request for a credential. `tool`: who needs it. `shown`: what people read about it."""

    tool: str
    sign_in: SignIn
    shown: JsonObject
    message: str


def read_request(call: FunctionCall, tools: Mapping[str, str]) -> AskedCredential | None:
    """Reads a request. None for a kind that a person can't answer. `tools`: the names of the session's calls, by id."""
    args = call.args or {}
    config = as_object(_value_named(args, "authConfig"))
    scheme, oauth2 = as_object(_value_named(config, "authScheme")), _oauth2(config)
    about = as_text(_value_named(args, "functionCallId"))
    tool = tools.get(about) or _short_name(about) or "sign_in"
    kind = as_text(scheme.get("type") or _value_named(scheme, "type_")).lower()
    message = as_text(args.get("message"))
    message = "" if message == SAYS_NOTHING else message
    if auth_uri := as_text(_value_named(oauth2, "authUri")):
        return _oauth_request(tool, auth_uri, as_text(_value_named(oauth2, "redirectUri")), message)
    if kind == "apikey":
        shown: JsonObject = {"key": as_text(scheme.get("name")) or "API key"}
        return AskedCredential(tool, SignIn(way=SignInMethod.KEY), shown, message)
    if kind == "http":
        name = as_text(scheme.get("scheme")).lower()
        way = SignInMethod.PASSWORD if name == "basic" else SignInMethod.TOKEN
        return AskedCredential(tool, SignIn(way=way), {"scheme": name or "bearer"}, message)
    return None


def _oauth_request(tool: str, auth_uri: str, redirect_uri: str, message: str) -> AskedCredential | None:
    parts = urlsplit(auth_uri)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    scopes: list[Json] = list(query.get("scope", "").split())
    shown: JsonObject = {"service": parts.netloc.rpartition("@")[2], **({"access": scopes} if scopes else {})}
    redirect = query.get("redirect_uri") or redirect_uri
    return AskedCredential(
        tool, SignIn(way=SignInMethod.OAUTH, auth_uri=auth_uri, redirect_uri=redirect), shown, message
    )


def answer_to(call: FunctionCall, given: Credential) -> JsonObject:
    """The request's own configuration, completed with what the person gave."""
    config = deepcopy(as_object(_value_named(call.args or {}, "authConfig")))
    exchanged = as_object(_value_named(config, "exchangedAuthCredential")) or as_object(
        _value_named(config, "rawAuthCredential")
    )
    config.pop("exchanged_auth_credential", None)
    config["exchangedAuthCredential"] = _fill_in(deepcopy(exchanged), config, given)
    return config


def _fill_in(credential: JsonObject, config: JsonObject, given: Credential) -> JsonObject:
    scheme = as_object(_value_named(config, "authScheme"))
    match given.way:
        case SignInMethod.OAUTH:
            oauth2 = as_object(_value_named(credential, "oauth2"))
            kept = {name: value for name, value in oauth2.items() if name not in ("auth_response_uri", "redirect_uri")}
            kept |= {"authResponseUri": given.value, "redirectUri": given.redirect_uri}
            return {"authType": "oauth2", **credential, "oauth2": kept}
        case SignInMethod.KEY:
            return {"authType": "apiKey", "apiKey": given.value}
        case SignInMethod.TOKEN:
            name = as_text(scheme.get("scheme")) or "bearer"
            return {"authType": "http", "http": {"scheme": name, "credentials": {"token": given.value}}}
        case SignInMethod.PASSWORD:
            both: JsonObject = {"username": given.username, "password": given.value}
            return {"authType": "http", "http": {"scheme": "basic", "credentials": both}}


def _oauth2(config: JsonObject) -> JsonObject:
    return as_object(as_object(_value_named(config, "exchangedAuthCredential")).get("oauth2"))


def _short_name(about: str) -> str:
    """The name of a workflow's node or of a toolset. `flow@1/ask@2` is the second run of the node `ask`."""
    if about.startswith(NODE):
        return about.removeprefix(NODE).rpartition("/")[2].partition("@")[0]
    return about.removeprefix(TOOLSET) if about.startswith(TOOLSET) else ""


def _value_named(values: JsonObject, camel: str) -> Json:
    """Finds a value by its name. Early versions of google-adk write names in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
    return values.get(camel, values.get(snake))
