"""The prompts that Slack shows in the direct message with the agent."""

from __future__ import annotations

import pytest

from tests.support.office import BOTH_WAYS, Office

ON = 'prompts = ["What can you do?", "Deploy checkout"]\n[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n'
SUGGEST = "assistant.threads.setSuggestedPrompts"


async def asked(at: Office, times: int) -> None:
    await at.slack.until(lambda: len(at.slack.calls_of(SUGGEST)) >= times or None, what="the prompts")


@BOTH_WAYS
@pytest.mark.office(ON)
async def test_who_opens_the_direct_message_finds_the_prompts(at: Office) -> None:
    direct = at.ann.place(None)
    at.slack.faults.cuts(SUGGEST)
    at.ann.opens_messages()
    await asked(at, 1)
    at.ann.opens_messages()
    await at.slack.until(lambda: direct.prompts or None)
    assert direct.prompts == [("What can you do?", "What can you do?"), ("Deploy checkout", "Deploy checkout")]


@pytest.mark.office(ON)
async def test_a_refusal_hinders_nothing(at: Office) -> None:
    at.slack.faults.refuses(SUGGEST, "unknown_method")
    at.ann.opens_messages()
    await asked(at, 1)
    await at.ann.says("hello", None)
    await at.ann.finds("I can do this", None)
