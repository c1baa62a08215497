"""A card's history is shown to people who can see the card, whichever message they ask about."""

from __future__ import annotations

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.blocks.click_ids import Ref, block_id
from adk_confirm.runtime.jsontypes import as_object
from tests.support.office import Office

SECRET = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
channel = "C0SECRET"
"""


async def names(at: Office, channel: str, confirmation: str) -> str:
    """A message of another app that says it is the card of this confirmation; its ts."""
    client = AsyncWebClient(at.slack.bot_token, base_url=at.slack.url)
    section = {
        "type": "section",
        "text": {"type": "plain_text", "text": "look here"},
        "block_id": block_id("head", Ref(confirmation, 1), 1),
    }
    return str((await client.chat_postMessage(channel=channel, text="look here", blocks=[section]))["ts"])


@pytest.mark.office(SECRET)
async def test_the_history_is_for_those_who_can_see_the_card(at: Office) -> None:
    secret = at.slack.channel("secret", at.bob, private=True, id="C0SECRET")
    guest = at.slack.person("gus", id="U0GUS", is_restricted=True)
    at.slack.workspace.directory.set_members(at.deploys.id, add=(guest.id,))
    await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
    card = await at.bob.finds("Approve", secret)
    confirmation = str(as_object((card.message.metadata or {}).get("event_payload"))["confirmation"])
    await names(at, at.deploys.id, confirmation)
    bait = await at.oscar.finds("look here", at.deploys)
    await at.rests()  # where the card is, is stored after it was posted

    for person in (at.oscar, at.ann, guest):
        await person.shortcut("adk_confirm_history", person.now(bait))
        assert "reimburse" not in await person.gets_modal("shown to people who can see the card")
    await at.bob.shortcut("adk_confirm_history", at.bob.now(bait))
    assert "reimburse" in await at.bob.gets_modal("needs approval")

    await at.later(minutes=1)
    at.slack.faults.refuses("conversations.members", "missing_scope", times=None)
    await at.oscar.shortcut("adk_confirm_history", at.oscar.now(bait))
    await at.oscar.gets_modal("Slack did not say that you can")


async def test_a_guest_reads_a_public_channel_only_from_inside(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    confirmation = str(as_object((card.message.metadata or {}).get("event_payload"))["confirmation"])
    guest = at.slack.person("gus", id="U0GUS", is_restricted=True)
    lobby = at.slack.channel("lobby", guest)
    await names(at, lobby.id, confirmation)
    bait = await guest.finds("look here", lobby)

    await guest.shortcut("adk_confirm_history", bait)
    await guest.gets_modal("shown to people who can see the card")

    at.slack.workspace.directory.set_members(at.deploys.id, add=(guest.id,))
    await at.later(minutes=1)
    await guest.shortcut("adk_confirm_history", bait)
    await guest.gets_modal("needs approval")
