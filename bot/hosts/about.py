"""Finds out once what an ADK server is and supports, so that nothing has to be guessed for a call.

ADK Python describes its requests (`/openapi.json`) and its tools (`app-info`). Our own API is recognised by its title.
The servers of Go, Java and JavaScript describe nothing, so they get the plain form of a request, which all servers
accept: ADK Go refuses fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import quote

from adk_confirm.bot.hosts.host import Unreachable
from adk_confirm.bot.hosts.server import ServerInfo, Settle
from adk_confirm.runtime.adk.signing import OUR_API
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, objects, same, texts

Get = Callable[[str], Awaitable[tuple[int, Json]]]

PORT = (
    "Whoever reaches its port can answer in place of the people here. The bot notices this and says so, but can't "
    "prevent it. Protect the port, or use our plugin with a secret."
)
OUR_PORT = (
    "Whoever reaches its port and has its token can answer in place of the people here. The bot notices this and says "
    "so, but can't prevent it. Protect both."
)
DENIALS = (
    "The server may not keep to a denial: a tool that asks in its own body, or whose rule now answers otherwise, may "
    "run after a denial. The bot notices this and says so. Our plugin prevents it."
)
EDITS = "Only a payload that a tool asks for can be edited; any other edit becomes a denial that says what people want."
BROKEN = "If the connection breaks, nobody may know whether a call took effect. People are asked then."
TOGETHER = (
    "Answers to one agent go to it together: an approval waits until everything that the agent asked in that turn is "
    "decided."
)
NOT_DESCRIBED = (
    "It fails when it is asked about its app (app-info, 500). If runs fail as well, it could not import the app: its "
    "log says why."
)
NO_MARKS = "It keeps no marks of ours, so messages that got lost on the way are looked for by their text and time."


async def find_out(app: str, get: Get, settle: Settle | None = None) -> ServerInfo:
    """Asks the server what it supports. `settle` sends what people said about an unknown outcome, if the server is our
    own API.

    Raises `Unreachable` if the server, or the app on it, does not exist.
    """
    _check_app(app, await _description(get, "/list-apps"))
    try:
        status, info = await get(f"/apps/{quote(app, safe='')}/app-info")
    except Unreachable:  # it has to load the app for this, and may fail
        await get("/list-apps")  # if the whole server is gone, this is an error
        status, info = 0, None
    described, version = await _description(get, "/openapi.json"), await _description(get, "/version")
    ours = as_object(as_object(described).get("info")).get("title") == OUR_API
    metadata = "customMetadata" in _run_fields(described)
    notes = [PORT, DENIALS, EDITS, BROKEN, TOGETHER]
    notes += [] if metadata else [NO_MARKS]
    notes += [NOT_DESCRIBED] if status == HTTPStatus.INTERNAL_SERVER_ERROR else []
    return ServerInfo(
        name=f"adk-confirm's own API ({_name(version)})" if ours else _name(version),
        metadata=metadata,
        settle=settle if ours else None,
        schemas=_schemas(info),
        notes=(OUR_PORT,) if ours else tuple(notes),
    )


async def _description(get: Get, path: str) -> Json:
    """The server's description, or None."""
    status, body = await get(path)
    return body if status == HTTPStatus.OK else None


def _check_app(app: str, listed: Json) -> None:
    names = texts(listed)
    if names and app not in names:
        raise Unreachable(
            f'The agent\'s server has no app "{app}"; it has {", ".join(sorted(names))}. Correct app in [agent].', 60.0
        )


def _name(version: Json) -> str:
    info = as_object(version)
    language, number = info.get("language"), info.get("version")
    if not isinstance(number, str):
        return "an ADK server"
    return f"ADK {language} {number}" if isinstance(language, str) else f"ADK {number}"


def _run_fields(openapi: Json) -> JsonObject:
    schemas = as_object(as_object(as_object(openapi).get("components")).get("schemas"))
    return as_object(as_object(schemas.get("RunAgentRequest")).get("properties"))


def _schemas(info: Json) -> dict[str, JsonObject]:
    """The schemas of the tools' parameters, by tool name. Without those of tools that only share a name."""
    found: dict[str, list[JsonObject]] = {}
    for agent in as_object(as_object(info).get("agents")).values():
        for tool in objects(as_object(agent).get("tools")):
            for declared in objects(tool.get("functionDeclarations")):
                name = declared.get("name")
                schema = as_object(declared.get("parametersJsonSchema"))
                if isinstance(name, str):
                    found.setdefault(name, []).append(schema)
    return {name: several[0] for name, several in found.items() if all(same(several[0], one) for one in several)}
