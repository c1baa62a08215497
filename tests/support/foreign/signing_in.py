"""Agents of google-adk 2 whose tools and nodes need somebody to sign in, as targets of `[agent]`.

OAUTH_URL is the address of the tests' provider.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from fastapi.openapi.models import APIKey, APIKeyIn, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_handler import AuthHandler
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool

from tests.support.foreign.pausing import SECRET, app, calling, flow, function_node_with, said
from tests.support.foreign.provider import CLIENT, CLIENT_SECRET
from tests.support.foreign.tools import log


def oauth(**more: Any) -> AuthConfig:
    url = os.environ["OAUTH_URL"]
    code = OAuthFlowAuthorizationCode(
        authorizationUrl=f"{url}/authorize", tokenUrl=f"{url}/token", scopes={"calendar.read": "Reads your calendar"}
    )
    own = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET, **more)
    return AuthConfig(
        auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=code)),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=own),
        credential_key="calendar",
    )


def by_key() -> AuthConfig:
    scheme = APIKey.model_validate({"type": "apiKey", "name": "X-Api-Key", "in": APIKeyIn.header})
    return AuthConfig(auth_scheme=scheme, credential_key="calendar key")


def read_calendar(day: str, credential: AuthCredential) -> dict[str, object]:
    """Reads somebody's calendar."""
    return {"day": day, **fetched(credential)}


def fetched(credential: AuthCredential) -> dict[str, object]:
    headers = {"X-Api-Key": credential.api_key or ""}
    if credential.oauth2 is not None:
        headers = {"Authorization": f"Bearer {credential.oauth2.access_token}"}
    asked = urllib.request.Request(f"{os.environ['OAUTH_URL']}/events", headers=headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            events: dict[str, object] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        events = {"error": f"the calendar said {error.code}"}
    log("calendar", **events)
    return events


def babble(day: str, credential: AuthCredential) -> dict[str, object]:
    """Returns the secret that it got."""
    oauth2 = credential.oauth2
    return {"day": day, "key": credential.api_key, "came": oauth2.auth_response_uri if oauth2 else None}


def tool(function: Callable[..., Any], config: AuthConfig) -> Any:
    return calling(AuthenticatedFunctionTool(func=function, auth_config=config), "day")


def diary() -> Any:
    """An agent for every version of google-adk. 1.14 loses a `credential_key` that the agent sets."""
    config = oauth()
    made = tool(
        read_calendar, AuthConfig(auth_scheme=config.auth_scheme, raw_auth_credential=config.raw_auth_credential)
    )
    made.name = "diary"
    return made


def node() -> Any:
    config = oauth(code_challenge_method="S256")

    def read(node_input: str, ctx: Any) -> dict[str, object]:
        credential = AuthHandler(config).get_auth_response(ctx.state)
        assert credential is not None
        return {"day": node_input, **fetched(credential)}

    return function_node_with(read, name="read_calendar", auth_config=config)


def tell(node_input: Any) -> str:
    return f"I got {node_input}"


MADE: dict[str, Callable[[], object]] = {
    "calendar": lambda: app(tool(read_calendar, oauth())),
    "calendar_resumable": lambda: app(tool(read_calendar, oauth(code_challenge_method="S256")), resumable=True),
    "calendar_signed": lambda: app(tool(read_calendar, oauth()), secret=SECRET),
    "calendar_local": lambda: app(tool(read_calendar, oauth(redirect_uri="http://localhost:8000/dev-ui?from=me"))),
    "calendar_node": lambda: app(flow(said, node(), tell)),
    "keyed": lambda: app(tool(read_calendar, by_key())),
    "babbling": lambda: app(tool(babble, by_key())),
}


def __getattr__(name: str) -> object:
    if name not in MADE:
        raise AttributeError(name)
    return MADE[name]()
