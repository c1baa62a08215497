"""The scenes that are played on both servers: a client's steps, with the lines for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.support.twins.client import Client
from tests.support.twins.scenes import ECHO, Plain, blocked, call, say, script

Scene = Callable[[Client], Awaitable[None]]
SCENES: list[Scene] = []

DEPLOY = call("deploy", service="checkout", version="2.4.1")
YES = {"confirmed": True}
NO = {"confirmed": False}


def scene(played: Scene) -> Scene:
    SCENES.append(played)
    return played


# Plain conversation


@scene
async def chat(client: Client) -> None:
    await client.create(state={"x": 1})
    await client.say(say("Hello there."))
    await client.say(ECHO)
    await client.look()


@scene
async def pieces(client: Client) -> None:
    await client.create()
    await client.say(say("One two three."), streaming=True)
    await client.say([say("Let me look."), call("lookup", topic="t")], say("Well done."), streaming=True)
    await client.say(DEPLOY, say("All done."), streaming=True)
    await client.answer((client.request_id(), YES), streaming=True)
    await client.look()


@scene
async def metadata(client: Client) -> None:
    custom = {"ticket": 7, "__adk_internal_restored_event": True, "note": {"a": [1]}}
    await client.create()
    await client.say([call("lookup", topic="t"), DEPLOY], say("Done."), customMetadata=custom, streaming=True)
    await client.answer((client.request_id(), YES), custom_metadata={"who": "ann"})
    await client.look()


@scene
async def tools(client: Client) -> None:
    await client.create()
    await client.say(call("lookup", topic="t"), say("Found."))
    await client.say(call("count", by=2), [say("And again."), call("count", by=3)], ECHO)
    await client.say(call("lookup", "call-1", topic="its own id"), ECHO)
    await client.look()


@scene
async def results_of_all_kinds(client: Client) -> None:
    await client.create()
    await client.say([call("plain", word="a"), call("nothing")], ECHO)
    await client.say(call("nothing"), ECHO)
    await client.say([call("pack", parcel={"to": "x", "weight": 2.5}), call("several", word="w")], ECHO)
    await client.say(call("stop_here"), say("Never said."))
    await client.say([call("stop_here"), call("lookup", topic="t")], say("Never said."))
    await client.look()


@scene
async def a_model_that_declines(client: Client) -> None:
    await client.create()
    await client.say(blocked("SAFETY", "No."), say("Never said."), streaming=True)
    await client.say(call("lookup", topic="t"), blocked("SAFETY", "No."))
    await client.say(ECHO)
    await client.look()


@scene
async def thoughts(client: Client) -> None:
    await client.create()
    thought = {"text": "Hm.", "thought": True}
    await client.say([thought, say("An answer.")], streaming=True)
    await client.say([thought, call("lookup", topic="t")], ECHO)
    await client.say(ECHO)
    await client.look()


@scene
async def files_and_several_texts(client: Client) -> None:
    await client.create()
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk_-w==", "displayName": "hi.png"}}
    file = {"fileData": {"fileUri": "https://example.com/x", "mimeType": "text/plain"}}
    lines = {"text": script(say("Seen."), ECHO), "partMetadata": {"x": 1}}
    await client.send({"role": "model", "parts": [lines, image, file]})
    await client.send({"role": "user", "parts": [{"text": "This"}, {"text": "and that, \u0000 é 🎉"}]})
    await client.look()


@scene
async def without_words(client: Client) -> None:
    await client.create()
    await client.say(*(say(word) for word in "abcdef"))
    await client.send(None)
    await client.send(None, stateDelta={"a": 1})
    await client.send({"role": "user", "parts": []})
    await client.send({"role": "user", "parts": [{}]})
    await client.send({"parts": [{"text": ""}]})
    await client.look()


@scene
async def a_history_from_elsewhere(client: Client) -> None:
    asked = {"functionCall": {"id": "c1", "name": "lookup", "args": {"topic": "x"}}}
    given = {"functionResponse": {"id": "c1", "name": "lookup", "response": {"found": True}}}
    await client.create(
        events=[
            {"author": "user", "content": {"role": "user", "parts": [{"text": "hello"}]}},
            {"author": "clerk", "invocationId": "e-x", "content": {"role": "model", "parts": [asked]}},
            {"author": "clerk", "content": {"role": "user", "parts": [given]}},
        ]
    )
    await client.look()
    await client.say(ECHO)
    await client.look()


@scene
async def state(client: Client) -> None:
    client.app = "keeper"
    await client.create(state={"a": 1, "user:u": 1, "app:b": 2, "temp:t": 1})
    await client.say(say("Yes."), stateDelta={"a": 2, "n": None, "temp:q": 1, "user:u": 5})
    await client.say(call("count", by=1), say("Counted."), stateDelta={"count": 10})
    await client.say(DEPLOY, say("Out."))
    await client.answer((client.request_id(), YES), stateDelta={"z": 1})
    await client.look()
    await client.request("PATCH", f"{client.sessions}/s", json={"stateDelta": {"a": 3, "user:u": 6, "new": [1]}})
    await client.request("PATCH", f"{client.sessions}/s", json={"state_delta": {"a": 4}})
    await client.request("GET", client.sessions)


# Confirmations


@scene
async def a_payload(client: Client) -> None:
    await client.create()
    await client.say(call("request_time_off", days=5), ECHO)
    await client.answer((client.request_id(), {"confirmed": True, "payload": {"approved_days": 3}}))
    await client.say(call("silent_request", text="x"), ECHO)
    await client.answer((client.request_id(), YES))
    await client.look()


@scene
async def a_held_call_among_others(client: Client) -> None:
    await client.create()
    await client.say([DEPLOY, call("lookup", topic="t")], ECHO, ECHO)
    await client.answer((client.request_id(), YES))
    await client.say([call("lookup", topic="t"), call("request_time_off", days=3)], say("Done."))
    await client.answer((client.request_id(), {"confirmed": True, "payload": {"approved_days": 2}}))
    await client.look()


@scene
async def several_held_calls_answered_together(client: Client) -> None:
    await client.create()
    wishes = [DEPLOY, call("lookup", topic="p"), call("reimburse", purpose="p", amount=2000), call("count", by=1)]
    await client.say(wishes, ECHO)
    await client.look()
    await client.answer((client.request_id(1), YES), (client.request_id(0), NO))
    await client.say([DEPLOY, call("request_time_off", days=3)], say("Done."))
    await client.answer(
        (client.request_id(3), {"confirmed": True, "payload": {"approved_days": 2}}), (client.request_id(2), YES)
    )
    await client.look()


@scene
async def with_its_invocation(client: Client) -> None:
    await client.create()
    asked, *_ = await client.say(DEPLOY, say("Done."))
    await client.answer((client.request_id(), YES), invocationId=asked["invocationId"])
    await client.say(DEPLOY, say("Done."))
    await client.answer((client.request_id(), YES), invocationId="e-another")
    await client.look()


@scene
async def in_snake_case(client: Client) -> None:
    await client.create()
    await client.say(DEPLOY, say("Done."))
    given = {"id": client.request_id(), "name": "adk_request_confirmation", "response": {"confirmed": True}}
    body = {
        "app_name": client.app,
        "user_id": client.user,
        "session_id": "s",
        "new_message": {"role": "user", "parts": [{"function_response": given}]},
    }
    await client.request("POST", "/run", json=body)


# Several agents


def to(name: str) -> Plain:
    return call("transfer_to_agent", agent_name=name)


@scene
async def handing_over(client: Client) -> None:
    client.app = "front"
    await client.create()
    await client.say(to("payer"), say("This is payer."))
    await client.say(call("reimburse", purpose="p", amount=5), say("It is still payer."))
    await client.say(to("pilot"), to("copilot"), call("plain", word="x"), say("This is copilot."))
    await client.say(to("pilot"), call("lookup", topic="x"), say("This is pilot."))
    await client.look()


@scene
async def handing_over_in_circles(client: Client) -> None:
    client.app = "front"
    await client.create()
    await client.say(to("payer"), to("front"), to("payer"), to("pilot"), to("payer"), to("front"), say("Phew."))
    await client.say(to("pilot"), to("copilot"), say("Here."))
    await client.say(to("pilot"), to("copilot"), to("pilot"), to("front"), to("pilot"), say("There."))
    await client.say(say("Still there."))
    await client.look()


@scene
async def a_confirmation_below_answered_when_another_agent_speaks(client: Client) -> None:
    client.app = "front"
    await client.create()
    held = call("reimburse", purpose="p", amount=1500)
    await client.say(to("pilot"), to("payer"), held, to("pilot"), say("This is pilot."), say("Paid."), say("Payer."))
    await client.send({"role": "user", "parts": [{"text": "Give me the pilot."}]})
    await client.answer((client.request_id(), YES))
    await client.send({"role": "user", "parts": [{"text": "Who is it now?"}]})
    await client.look()


@scene
async def a_confirmation_and_then_handing_over(client: Client) -> None:
    client.app = "front"
    await client.create()
    await client.say(to("pilot"), DEPLOY, to("copilot"), say("This is copilot."))
    await client.answer((client.request_id(), YES))
    await client.say(say("It is still copilot."))
    await client.look()


# Sessions


@scene
async def sessions(client: Client) -> None:
    await client.create(state={"a": 1})
    await client.create()
    await client.request("POST", f"{client.sessions}/s")
    await client.request("POST", f"{client.sessions}/other", json={"k": 1, "state": {"x": 1}})
    await client.request("POST", f"{client.sessions}/bare")
    await client.request("POST", client.sessions, json={})
    await client.request("POST", client.sessions, json={"session_id": " snake ", "unknown": 1})
    await client.request("POST", client.sessions)
    await client.request("DELETE", f"{client.sessions}/bare")
    await client.request("GET", f"{client.sessions}/snake")
    await client.request("GET", client.sessions)
    await client.request("GET", f"/apps/{client.app}/users/nobody/sessions")


@scene
async def around_it(client: Client) -> None:
    await client.request("GET", "/health")
    await client.request("GET", "/list-apps")
    await client.request("GET", "/list-apps?relative_path=./")
    await client.request("GET", "/nothing")
    await client.request("GET", "/run")
    await client.request("GET", "/apps/nobody/app-info")
    await client.create()
