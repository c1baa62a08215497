"""A calendar: the person who asks signs in, so that the agent can act for them, and a colleague approves bookings.

Set CALENDAR_URL, CALENDAR_CLIENT_ID and CALENDAR_CLIENT_SECRET to those of your calendar and its OAuth client, and
`public_url` in `examples/adk/appointments/adk-confirm.toml` to where browsers reach the bot. Needs google-adk 2.
"""

from __future__ import annotations

import json
import os
import urllib.request

from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.function_tool import FunctionTool

URL = os.environ.get("CALENDAR_URL", "https://calendar.example.com")

sign_in = AuthConfig(
    auth_scheme=OAuth2(
        flows=OAuthFlows(
            authorizationCode=OAuthFlowAuthorizationCode(
                authorizationUrl=f"{URL}/authorize",
                tokenUrl=f"{URL}/token",
                scopes={"calendar.read": "Reads your calendar"},
            )
        )
    ),
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2,
        oauth2=OAuth2Auth(
            client_id=os.environ.get("CALENDAR_CLIENT_ID", "calendar-client"),
            client_secret=os.environ.get("CALENDAR_CLIENT_SECRET", "change me"),
            code_challenge_method="S256",
        ),
    ),
    credential_key="calendar",
)


def list_events(day: str, credential: AuthCredential) -> dict[str, object]:
    """Lists what the person has on a day, such as 2026-01-31."""
    assert credential.oauth2 is not None
    headers = {"Authorization": f"Bearer {credential.oauth2.access_token}"}
    asked = urllib.request.Request(f"{URL}/events?day={day}", headers=headers)  # noqa: S310  (the address is yours)
    with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310  (likewise)
        found: dict[str, object] = json.loads(answer.read())
    return found


def book_room(room: str, day: str) -> dict[str, object]:
    """Books a room for a day."""
    return {"booked": room, "day": day}


root_agent = LlmAgent(
    name="appointments",
    model="gemini-2.5-flash",
    instruction="You look into people's calendars and book rooms. Call the tools at once: people sign in and approve.",
    tools=[
        AuthenticatedFunctionTool(func=list_events, auth_config=sign_in),
        FunctionTool(book_room, require_confirmation=True),
    ],
)

app = App(name="appointments", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
