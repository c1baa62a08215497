"""The scenes that are played with every server. They are judged by the tools' logs.

A scene that a server can't do (`kinds`) is played nevertheless: then nothing may run twice, and nobody may be told that
something ran if it did not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest

from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import DeliveryUnknown, RequestLost, Unreachable
from adk_confirm.runtime.adk.signing import REQUEST_CREDENTIAL
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION
from tests.support.foreign.kinds import NO_CLIENT, Kind
from tests.support.foreign.rig import Foreign
from tests.support.foreign.visit import Visit
from tests.support.foreign.wishes import IMITATED


@dataclass
class Scene:
    kind: Kind
    server: Foreign
    hosts: list[AdkHost] = field(default_factory=list)

    def visit(self, app: str = "clerk", timeout: float = 30.0) -> Visit:
        self.hosts.append(self.server.host(app, timeout=timeout))
        return Visit(self.hosts[-1])

    def ran(self, tool: str) -> list[object]:
        """The argument of each run of a tool."""
        lines = [{**line} for line in self.server.ran() if line["tool"] == tool]
        return [next(value for key, value in line.items() if key != "tool") for line in lines]

    def restart(self) -> None:
        self.server.kill()
        self.server.start()


Play = Callable[[Scene], Awaitable[None]]
SCENES: dict[str, tuple[str, Play]] = {}


def scene(title: str) -> Callable[[Play], Play]:
    def noted(play: Play) -> Play:
        SCENES[play.__name__] = (title, play)
        return play

    return noted


# Decided


@scene("approve")
async def approve(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    assert (request.tool, request.arguments, request.agent) == ("deploy", {"service": "search"}, "clerk")
    said = await visit.approve(request)
    assert at.ran("deploy") == ["search"]
    assert "search" in said[-1]
    outcome = await visit.outcome(request)
    assert (outcome.became, outcome.text, outcome.confirmed) == (OutcomeKind.DONE, '{"deployed":"search"}', True)


@scene("deny, with a reason that reaches the agent")
async def deny(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please pay 1500")
    said = await visit.deny(request, reason="Book the cheaper place")
    assert at.ran("reimburse") == []
    assert "Book the cheaper place" in said[-1]
    assert (await visit.outcome(request)).became is OutcomeKind.REFUSED


@scene("a call for which the predicate asks nobody")
async def below(at: Scene) -> None:
    visit = at.visit()
    said = await visit.say("please pay 7")
    assert (at.ran("reimburse"), await visit.requests()) == ([7], [])
    assert "7" in said[-1]


@scene("edited arguments reach the tool")
async def edit(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please pay 1500")
    assert request.can_edit is ("edit" not in at.kind.lacks)
    if request.can_edit:
        await visit.approve(request, payload={"amount": 1200})
        assert at.ran("reimburse") == [1200]
        assert await visit.became(request) is OutcomeKind.DONE


@scene("a payload for a tool that asks for one")
async def payload(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please rest 5")
    assert request.wants_payload
    await visit.approve(request, payload={"approved_days": 3})
    lacks = "payload" in at.kind.lacks
    assert at.ran("request_time_off") == ([] if lacks else [3])
    assert await visit.became(request) is (OutcomeKind.UNKNOWN if lacks else OutcomeKind.DONE)


@scene("a denied tool that asks for a payload gives its own result")
async def payload_denied(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please rest 5")
    said = await visit.deny(request, reason="Not in May")
    assert at.ran("request_time_off") == []
    assert (await visit.became(request)) is OutcomeKind.REFUSED
    assert "Not in May" in said[-1]
    if "payload" not in at.kind.lacks:
        assert not [text for text in said if "failed" in text or "approved_days'" in text]


@scene("requests of one turn, decided in any order")
async def parallel(at: Scene) -> None:
    for turned in (False, True):
        visit = at.visit()
        at.server.count_anew()
        await visit.say("please deploy a and deploy b")
        first, second = await visit.requests()
        assert await visit.requests() == [first, second]
        await given_as_it_takes_them(visit, *((second, first) if turned else (first, second)))
        assert sorted(map(str, at.ran("deploy"))) == ["a", "b"]
        assert [await visit.became(one) for one in (first, second)] == [OutcomeKind.DONE, OutcomeKind.DONE]


@scene("requests of one turn, one approved, one denied, one with a payload")
async def parallel_mixed(at: Scene) -> None:
    for words in ("please deploy a and pay 1500 and rest 5", "please rest 5 and pay 1500 and deploy a"):
        visit = at.visit()
        at.server.count_anew()
        await visit.say(words)
        requests = await visit.requests()
        assert len(requests) == 3
        await mixed(visit, requests)
        assert await judged(at, visit, requests)


@scene("calls that the model makes one after the other")
async def one_after_another(at: Scene) -> None:
    """If the model goes on while people decide, requests of several of its steps wait in one turn."""
    visit = at.visit()
    await visit.say("please rest 5 then deploy a then pay 1500")
    seen = list[HostRequest]()
    while requests := await visit.requests():
        seen += requests
        await mixed(visit, requests)
    if "one_after_another" in at.kind.lacks and "payload" not in at.kind.lacks:
        became = [await visit.became(one) for one in seen]
        assert (became.count(OutcomeKind.UNKNOWN), at.server.ran()) == (2, [])
        return
    assert await judged(at, visit, seen)
    assert "payload" in at.kind.lacks or {one.tool for one in seen} >= {"request_time_off", "deploy"}


@scene("branches of a `ParallelAgent`, both approved")
async def branches(at: Scene) -> None:
    for turned in (False, True):
        visit = at.visit("fork")
        at.server.count_anew()
        await visit.say("please deploy a and deploy b")
        requests = sorted(await visit.requests(), key=lambda one: one.agent, reverse=turned)
        assert len({request.siblings for request in requests}) == 2
        await given_as_it_takes_them(visit, *requests)
        lacks = "branches" in at.kind.lacks
        assert sorted(map(str, at.ran("deploy"))) == ([] if lacks else ["a", "b"])
        assert {await visit.became(one) for one in requests} == {OutcomeKind.UNKNOWN if lacks else OutcomeKind.DONE}


@scene("a tool of a sub-agent")
async def sub_agent(at: Scene) -> None:
    visit = at.visit("front")
    request = await visit.asks("please pay 1500")
    assert request.agent == "payer"
    said = await visit.approve(request)
    assert at.ran("reimburse") == [1500]
    assert "1500" in said[-1]
    assert (await visit.became(request)) is OutcomeKind.DONE


@scene("a tool of an MCP server")
async def mcp(at: Scene) -> None:
    visit = at.visit("filer")
    request = await visit.asks("please delete notes.txt")
    assert at.ran("delete_file") == []
    await visit.approve(request)
    assert at.ran("delete_file") == ["notes.txt"]
    outcome = await visit.outcome(request)
    assert outcome.became is OutcomeKind.DONE
    assert "notes.txt" in str(outcome.text)
    await visit.deny(await visit.asks("please delete plans.txt"))
    assert at.ran("delete_file") == ["notes.txt"]


@scene("an approved call that needs a sign-in is not taken for done")
async def sign_in(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please read Monday")
    await visit.approve(request)
    look = await visit.host.look(visit.session)
    assert (at.ran("read_calendar"), [one.kind for one in look.waits]) == ([], [REQUEST_CREDENTIAL])
    no_client = at.kind.how["sign_in"] == NO_CLIENT
    assert (await visit.became(request)) is (OutcomeKind.FAILED if no_client else OutcomeKind.RUNNING)


@scene("a model makes calls under the names of the framework's requests: nobody is asked")
async def imitated(at: Scene) -> None:
    for name in IMITATED:
        visit = at.visit()
        await visit.say(f"please imitate {name} {visit.session.id}")
        look = await visit.host.look(visit.session)
        assert (look.requests, look.waits, look.calls) == ((), (), {}), name
        assert "originalFunctionCall" not in str(look.said), look.said


# Once


@scene("the same answer, sent again, changes nothing")
async def once(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    await visit.approve(request)
    assert await visit.approve(request) == []
    assert await visit.deny(request) == []
    assert at.ran("deploy") == ["search"]


@scene("two calls under one id: each card says what its call did")
async def one_id(at: Scene) -> None:
    """Also if one of them is denied, in either order."""
    for verdicts in ((True, True), (True, False), (False, True)):
        visit = at.visit()
        at.server.count_anew()
        said = await visit.say("please as one deploy a and deploy b")
        look = await visit.host.look(visit.session)
        decided = [*zip(look.requests, verdicts, strict=False)]
        await visit.give([(one, visit.answer(one, verdict)) for one, verdict in decided])
        became = {str(one.arguments["service"]): await visit.became(one) for one, _ in decided}
        done = [service for service, it in became.items() if it is OutcomeKind.DONE]
        assert (done, len(decided)) == (at.ran("deploy"), 2 if "one_id" not in at.kind.how else len(decided[:1]))
        assert len(done) == sum(verdict for _, verdict in decided) or "one_id" in at.kind.how
        assert decided or said or look.waits, "nobody was told anything"


@scene("the same message, sent again, reaches the agent once")
async def words_once(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search", mark="m1")
    assert await visit.say("please deploy search", mark="m1", since=1.0) == []  # the first attempt was long ago
    assert await visit.requests() == [request]


@scene("an answer to a request that was never made is not sent")
async def unknown_id(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    with pytest.raises(RequestLost):
        await visit.approve(renamed(request))
    assert at.ran("deploy") == []
    assert await visit.requests() == [request]


@scene("an answer that the bot did not send is noticed")
async def elsewhere(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    await answered_by_others(at, visit, request)
    assert at.ran("deploy") == ["search"]
    outcome = await visit.outcome(request)
    assert (outcome.became, outcome.confirmed) == (OutcomeKind.DONE, True)
    assert await visit.approve(request) == []
    assert at.ran("deploy") == ["search"]


@scene("a tool that fails runs only once")
async def failing(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please break glass")
    await visit.approve(request)
    await visit.approve(request)
    assert at.ran("break_down") == ["glass"]
    assert (await visit.became(request)) in (OutcomeKind.UNKNOWN, OutcomeKind.FAILED)


# Broken

RESTARTS = ("killed_between", "killed_in_a_run", "killed_after")


@scene("down when people decide: the answer arrives once it is up")
async def killed_between(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    at.server.kill()
    for _ in range(2):
        with pytest.raises(Unreachable):
            await visit.approve(request)
    at.server.start()
    if "killed_between" in at.kind.lacks:
        with pytest.raises(RequestLost) as lost:
            await visit.approve(request)
        assert not lost.value.may_have_run
        assert at.ran("deploy") == []
    else:
        await visit.approve(request)
        assert at.ran("deploy") == ["search"]
        assert (await visit.became(request)) is OutcomeKind.DONE


@scene("killed while a tool runs: the outcome is unknown, and the tool runs again only if people say so")
async def killed_in_a_run(at: Scene) -> None:
    at.server.holds("kill")
    visit = at.visit()
    request = await visit.asks("please linger kill")
    approving = asyncio.create_task(visit.approve(request))
    await at.server.has_begun("kill")
    assert (await visit.became(request)) is OutcomeKind.RUNNING
    at.server.kill()
    with pytest.raises(DeliveryUnknown):
        await approving
    at.server.start()
    if "killed_in_a_run" in at.kind.lacks:
        with pytest.raises(RequestLost) as lost:
            await visit.approve(request, ago=1000.0)
        assert lost.value.may_have_run
        assert at.server.lingered("kill") == ["begun"]
        return
    assert (await visit.became(request)) is OutcomeKind.UNKNOWN
    assert await visit.approve(request) == []
    assert at.server.lingered("kill") == ["begun"]
    at.server.go_on("kill")
    await visit.settle(request, "run again")
    assert at.server.lingered("kill") == ["begun", "begun", "ended"]
    assert (await visit.became(request)) is OutcomeKind.DONE


@scene("killed after a run: the outcome stays known")
async def killed_after(at: Scene) -> None:
    visit = at.visit()
    request = await visit.asks("please deploy search")
    await visit.approve(request)
    at.restart()
    if at.kind.keeps:
        assert (await visit.became(request)) is OutcomeKind.DONE
        assert await visit.approve(request) == []
    else:
        assert (await visit.host.look(visit.session)).calls == {}
    assert at.ran("deploy") == ["search"]


@scene("what people find out about an unknown call reaches the agent as text")
async def settled(at: Scene) -> None:
    visit = at.visit()
    if "settled" in at.kind.how:
        request = await left_by_a_kill(at, visit)
    else:
        request = await visit.asks("please break glass")
        await visit.approve(request)
    said = await visit.settle(request, "it did not")
    assert "did not happen" in said[-1] or "did not take effect" in said[-1]
    assert await visit.settle(request, "it did not") == []
    assert len([*at.ran("break_down"), *at.ran("linger")]) == 1


@scene("a time-out on our side: the bot reads the session, and never sends twice")
async def timed_out(at: Scene) -> None:
    at.server.holds("time")
    visit, impatient = at.visit(), at.visit(timeout=1.5 if at.kind.quick else 3.0)
    impatient.session = visit.session
    request = await visit.asks("please linger time")
    await impatient.host.capabilities()
    await impatient.approve(request)
    assert (await visit.became(request)) is OutcomeKind.UNKNOWN
    assert await visit.approve(request) == []
    at.server.go_on("time")
    assert at.server.lingered("time") in (["begun"], ["begun", "ended"])  # some servers go on although the bot hung up


@scene("somebody else writes while a tool runs: the tool runs once")
async def chat_in_between(at: Scene) -> None:
    at.server.holds("chat")
    visit, other = at.visit(), at.visit()
    other.session = visit.session
    request = await visit.asks("please linger chat")
    approving = asyncio.create_task(visit.approve(request))
    await at.server.has_begun("chat")
    chatting = asyncio.create_task(other.say("hello"))
    if not at.kind.waits:
        await chatting
    at.server.go_on("chat")
    await approving
    await chatting
    assert await visit.approve(request) == []
    assert at.server.lingered("chat") == ["begun", "ended"]
    assert (await visit.became(request)) in (
        (OutcomeKind.DONE,) if at.kind.waits else (OutcomeKind.DONE, OutcomeKind.UNKNOWN)
    )


# Around them


async def left_by_a_kill(at: Scene, visit: Visit) -> HostRequest:
    at.server.holds("left")
    request = await visit.asks("please linger left")
    approving = asyncio.create_task(visit.approve(request))
    await at.server.has_begun("left")
    at.server.kill()
    with pytest.raises(DeliveryUnknown):
        await approving
    at.server.start()
    return request


async def mixed(visit: Visit, requests: Sequence[HostRequest]) -> None:
    """Denies payments, approves everything else, and answers days off with a payload."""
    given = [
        visit.answer(one, one.tool != "reimburse", payload={"approved_days": 3} if one.wants_payload else None)
        for one in requests
    ]
    await visit.give(list(zip(requests, given, strict=True)))


async def judged(at: Scene, visit: Visit, requests: Sequence[HostRequest]) -> bool:
    """Whether each call did what was decided, once. Where the server refuses one of the answers, what came with it is
    unknown, and did not run."""
    days = OutcomeKind.UNKNOWN if "payload" in at.kind.lacks else OutcomeKind.DONE
    expected = {"deploy": OutcomeKind.DONE, "reimburse": OutcomeKind.REFUSED, "request_time_off": days}
    became = [(one, await visit.became(one)) for one in requests]
    if "parallel_mixed" in at.kind.lacks:
        expected["deploy"] = OutcomeKind.UNKNOWN
    assert [kind for _, kind in became] == [expected[one.tool] for one in requests]
    runs = sorted(one.tool for one, kind in became if kind is OutcomeKind.DONE)
    return sorted(tool for tool in expected for _ in at.ran(tool)) == runs


async def given_as_it_takes_them(visit: Visit, *requests: HostRequest) -> None:
    await visit.give([(request, visit.answer(request, True)) for request in requests])


def renamed(request: HostRequest) -> HostRequest:
    return HostRequest(
        request_id="adk-never-asked",
        call_id="adk-never-called",
        tool=request.tool,
        arguments=request.arguments,
        agent=request.agent,
        invocation_id=request.invocation_id,
    )


async def answered_by_others(at: Scene, visit: Visit, request: HostRequest) -> None:
    given = {"id": request.request_id, "name": REQUEST_CONFIRMATION, "response": {"confirmed": True}}
    body = {
        "appName": visit.session.app,
        "userId": visit.session.user_id,
        "sessionId": visit.session.id,
        "newMessage": {"role": "user", "parts": [{"functionResponse": given}]},
    }
    async with aiohttp.ClientSession() as http, http.post(f"{at.server.url}/run_sse", json=body) as response:
        assert response.status == 200
        await response.read()
