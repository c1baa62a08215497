"""Asks Slack, for `adk-confirm check`, whether it would take what the app shows: each card, a form and the Home tab."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from blocks.card import card
from blocks.form import deny_form, edit_form
from blocks.home import home_tab
from blocks.view import Argument, CardView, Face, HomeView
from bot.operations.findings import Finding, fine, fix, note
from runtime.jsontypes import JsonObject

_CALL = CardView(
    id="example",
    revision=1,
    version=1,
    face=Face.WAITING,
    tool="deploy",
    agent="agent",
    arguments=(Argument("service", "checkout"), Argument("replicas", 3), Argument("notes", "one\ntwo")),
    editable=("service", "replicas"),
    asked_at=0,
    expires_at=3600,
    result={"status": "deployed"},
    error="It did not answer.",
)


def layouts() -> Iterator[tuple[str, JsonObject]]:
    """What is shown, and the arguments for `blocks.validate`."""
    for face in Face:
        yield f"the card “{face.value}”", {"message": card(replace(_CALL, face=face)).payload()}
    yield "the form to edit", {"view": edit_form(_CALL, None)}
    yield "the form to deny", {"view": deny_form(_CALL, required=True)}
    yield "the Home tab", {"view": home_tab(HomeView(version=1, waiting=(_CALL,), asked=(_CALL,)))}


async def check_layouts(client: AsyncWebClient) -> Finding:
    """One finding about all of them. Raises what the client raises if Slack can't be reached."""
    count = 0
    for what, arguments in layouts():
        try:
            await client.blocks_validate(**arguments)  # type: ignore[arg-type]
        except SlackApiError as error:
            code = str(error.response["error"])
            if code in ("unknown_method", "ratelimited", "missing_scope", "not_allowed_token_type"):
                return note("layouts", f"not checked: Slack does not answer blocks.validate here ({code})")
            said = error.response.get("response_metadata", {}).get("messages", [])
            return fix(
                "layouts", f"Slack refuses {what}, {'; '.join([code, *said])}: report this as a bug of adk-confirm"
            )
        count += 1
    return fine("layouts", f"Slack accepts all {count}")
