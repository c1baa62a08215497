"""A thread as one of Slack's agent sessions: its status follows the agent, and a workspace may refuse the feature."""

from __future__ import annotations

import pytest

from adk_confirm.bot.store.agent_status import SUSPENDED_AFTER
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.workspace.records import AgentSession
from tests.support.office import BOTH_WAYS, TALKER, Office
from tests.support.talking import Mouth

SHORT = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nexpires_after = "10m"\n'

pytestmark = [pytest.mark.office(target=TALKER), pytest.mark.usefixtures("mouth")]


async def shows(at: Office, said: Seen, status: str) -> AgentSession:
    """Waits until Slack shows this status for the thread."""

    def look() -> AgentSession | None:
        session = at.slack.workspace.directory.channel(said.channel).sessions.get(said.thread)
        return session if session is not None and session.status == status else None

    return await at.slack.until(look, what=f"the session to be {status}")


@BOTH_WAYS
@pytest.mark.office(target=TALKER)
async def test_a_session_is_at_work_and_then_it_is_the_persons_turn(at: Office, mouth: Mouth) -> None:
    said = await at.ann.says("@adk-confirm tell me   about checkout", at.deploys)
    session = await shows(at, said, "processing")
    assert session.title == "tell me about checkout"
    assert session.initiator == at.ann.id

    mouth.say("It is fine.", None)
    await at.ann.finds("It is fine.", at.deploys, thread=said)
    await at.later(seconds=2)
    await shows(at, said, "active")
    await at.rests()
    assert len(at.slack.calls_of("agents.sessions.setStatus")) == 2


@BOTH_WAYS
@pytest.mark.office(SHORT)
async def test_what_waits_for_people_suspends_its_session(at: Office) -> None:
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.rests()
    assert at.slack.calls_of("agents.sessions.setStatus") == []  # it may be decided in a moment
    await at.later(seconds=SUSPENDED_AFTER + 1)
    assert (await shows(at, card, "suspended")).title == "deploy checkout 2.4.1 to prod"

    await at.bob.clicks(card, "Approve")
    await at.ann.finds("is on prod now", at.deploys, thread=card)
    await at.later(seconds=2)
    await shows(at, card, "active")

    late = await at.ask("deploy checkout 2.4.2 to prod")
    await at.later(seconds=SUSPENDED_AFTER + 1)
    await shows(at, late, "suspended")
    await at.later(minutes=11)
    await at.ann.finds("nobody decided in time", at.deploys, thread=late)
    await at.later(seconds=2)
    await shows(at, late, "active")


@pytest.mark.parametrize("code", ["unknown_method", "missing_scope", "not_allowed"])
@pytest.mark.office(SHORT)
async def test_where_sessions_are_refused_nothing_is_shown_and_all_goes_on(at: Office, code: str) -> None:
    refused = at.slack.faults.refuses("agents.sessions.*", code, times=None)
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.later(seconds=SUSPENDED_AFTER + 1)
    await at.slack.until(lambda: refused.met or None, what="the status to be tried")
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("is on prod now", at.deploys, thread=card)
    await at.rests()
    assert at.deploys.sessions == {}


async def test_a_lost_answer_leaves_the_right_status_and_an_old_session_gets_a_title(at: Office, mouth: Mouth) -> None:
    said = await at.ann.says("hello", None)
    direct = at.slack.workspace.directory.channel(said.channel)
    direct.sessions[said.thread] = AgentSession("active")
    cut = at.slack.faults.cuts("agents.sessions.setStatus", acted=True)
    await cut.reached()
    mouth.say("Hello.", None)
    await at.ann.finds("Hello.", None, thread=said)
    await at.later(seconds=10)
    title = await at.slack.until(lambda: direct.sessions[said.thread].title or None, what="the title of the session")
    assert title == "hello"
    await shows(at, said, "active")


@pytest.mark.parametrize("refused", [False, True])
async def test_a_streamed_reply_ends_with_the_status_that_follows(at: Office, mouth: Mouth, refused: bool) -> None:
    """Slack would show the session as active when the stream ends, even if the agent goes on."""
    said = await at.ann.says("@adk-confirm tell me about checkout", at.deploys)
    await shows(at, said, "processing")
    await mouth.goes_on(at.slack, "It is fine. ", until=lambda: at.slack.calls_of("chat.startStream"))
    if refused:
        at.slack.faults.refuses("chat.stopStream", "not_allowed")
    mouth.say("Very fine.", None)
    await at.ann.finds("Very fine.", at.deploys, thread=said)
    await at.later(seconds=2)
    await shows(at, said, "active")
    await at.rests()
    statuses_at_stop = [call.args.get("session_status") for call in at.slack.calls_of("chat.stopStream")]
    assert statuses_at_stop[0] in ("active", "processing")  # the run may just have ended, or be about to
    assert statuses_at_stop[1:] == ([None] if refused else [])
    statuses = [call.args["status"] for call in at.slack.calls_of("agents.sessions.setStatus")]
    assert statuses == ["processing", *(["active"] if statuses_at_stop[0] == "processing" else [])]
