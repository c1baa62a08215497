"""Agents of google-adk in this process, behind our plugin. Their sessions are kept beside the bot's own store.

Given an agent or an `App`, the bot makes a `Runner` for it; given a `Runner`, it takes that with its session service.
All of google-adk's runs in a thread apart: a tool that blocks holds up its like, as on any ADK server, but not Slack.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from bot.confirmation.model import SessionKey
from bot.hosts.adk_host import ForeignHost
from bot.hosts.host import Failed, Host, Unreachable
from bot.hosts.loop_thread import Apart
from bot.hosts.server import About
from runtime.errors import Invalid
from runtime.jsontypes import JsonObject
from runtime.target import BadTarget
from runtime.wire import Content

if TYPE_CHECKING:
    from google.adk.apps.app import App
    from google.adk.events.event import Event
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import Runner
    from google.adk.sessions.base_session_service import BaseSessionService

log = logging.getLogger(__name__)

IN_MEMORY = (
    "The agent's sessions are kept in memory: when this process ends, what waits for a decision is lost, and what was "
    "said is forgotten. Give the Runner a session service on a database."
)


def is_googles(target: object) -> bool:
    """Whether this is google-adk's, so that it needs this host. Looks without importing anything."""
    return any(f"{base.__module__}.".startswith("google.adk.") for base in type(target).__mro__)


class AdkServer:
    """The runner, in the terms of a server."""

    patience = 5.0
    """What broke off here has ended. But nothing is tried again at once."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._apart = Apart("google-adk")

    @property
    def app(self) -> str:
        return self.runner.app_name

    async def about(self) -> About:
        config, installed = self.runner.resumability_config, version("google-adk")
        return About(
            name=f"google-adk {installed} in this process",
            metadata=True,
            invocation=True,
            # google-adk 1 ends a resumable turn with its first answer: the others of the turn would count for nothing.
            resumable=config is not None and config.is_resumable and not installed.startswith("1."),
            notes=(IN_MEMORY,) if _in_memory(self.runner.session_service) else (),
        )

    async def events(self, session: SessionKey) -> list[JsonObject] | None:
        async def read() -> list[JsonObject] | None:
            found = await self.runner.session_service.get_session(
                app_name=session.app, user_id=session.user, session_id=session.id
            )
            return None if found is None else [_json(event) for event in found.events]

        with _unreachable():
            return await self._apart.call(read)

    async def create(self, session: SessionKey) -> None:
        async def created() -> None:
            await self.runner.session_service.create_session(
                app_name=session.app, user_id=session.user, session_id=session.id
            )

        with _unreachable():
            await self._apart.call(created)

    async def run(self, session: SessionKey, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        async for event in self._apart.iterate(lambda: self._run(session, message, extra)):
            yield event

    async def _run(self, session: SessionKey, message: Content, extra: JsonObject) -> AsyncGenerator[JsonObject, None]:
        from google.adk.agents.run_config import RunConfig
        from google.genai import types

        metadata, invocation = extra.get("customMetadata"), extra.get("invocationId")
        running = self.runner.run_async(
            user_id=session.user,
            session_id=session.id,
            new_message=types.Content.model_validate(message.to_dict()),
            invocation_id=invocation if isinstance(invocation, str) else None,
            run_config=RunConfig.model_validate({"streaming_mode": "sse", "custom_metadata": metadata}),
        )
        try:
            async for event in running:
                yield _json(event)
        except Exception as error:
            # Whatever the agent, its tools or its session service raise: the session tells how far it got.
            raise Failed(f"The agent failed: {type(error).__name__}: {str(error)[:300]}") from error
        finally:
            await running.aclose()

    async def close(self) -> None:
        await self._apart.call(self._close)
        await self._apart.close()

    async def _close(self) -> None:
        await self.runner.close()
        closing = getattr(self.runner.session_service, "close", None)  # those on a database have it
        if closing is not None:
            await closing()


@contextmanager
def _unreachable() -> Iterator[None]:
    """Any database's own errors: nothing was changed by looking, or a session is there without a word in it."""
    try:
        yield
    except Exception as error:
        raise Unreachable(f"The agent's sessions can't be reached: {type(error).__name__}: {error}") from error


def _json(event: Event) -> JsonObject:
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def open_adk(target: object, name: str, store_url: str, clock: Callable[[], float] | None = None) -> Host:
    """`target` is a google-adk agent, `App` or `Runner`; `name` is what it was asked for by."""
    from google.adk.runners import Runner

    if isinstance(target, Runner):
        runner = target
        secret = _guard(runner.plugin_manager.plugins)
    else:
        app = _app(target, name)
        plugins = list(app.plugins)
        secret = _guard(plugins)
        runner = Runner(app=app.model_copy(update={"plugins": plugins}), session_service=_sessions(store_url))
    if _in_memory(runner.session_service):
        log.warning("%s: %s", name, IN_MEMORY)
    return ForeignHost(AdkServer(runner), secret=secret, clock=clock)


def _app(target: object, name: str) -> App:
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App

    if isinstance(target, App):
        return target
    if not isinstance(target, BaseAgent):
        kind = type(target).__name__
        raise BadTarget(f"{name} is google-adk's {kind}: an agent, an App or a Runner is needed here.")
    try:
        return App(name=target.name, root_agent=target)
    except ValueError as error:
        raise BadTarget(f"{name} can't be made an App of google-adk, so give one: {error}") from error


def _guard(plugins: list[BasePlugin]) -> str | None:
    """Our plugin is one of them, and the first; with the secret that it may have been given. google-adk asks no further
    plugin when one has answered."""
    from runtime.adk_plugin import ConfirmationPlugin

    ours = next((one for one in plugins if isinstance(one, ConfirmationPlugin)), None)
    if ours is None:
        ours = ConfirmationPlugin()
    else:
        plugins.remove(ours)
    plugins.insert(0, ours)
    return ours.secrets[0] if ours.secrets else None


def _in_memory(sessions: BaseSessionService) -> bool:
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    return isinstance(sessions, InMemorySessionService)


def _sessions(store_url: str) -> BaseSessionService:
    """As durable as the bot's own store."""
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    url = make_url("sqlite://" if store_url == ":memory:" else store_url)
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            return InMemorySessionService()
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        path = Path(url.database)
        try:
            return SqliteSessionService(str(path.with_name(f"{path.stem}-adk{path.suffix}")))
        except RuntimeError as error:
            raise Invalid(f"The agent's sessions can't be opened: {error}") from error
    try:
        from google.adk.sessions.database_session_service import DatabaseSessionService

        url = url.set(drivername="postgresql+asyncpg")
        return DatabaseSessionService(url.render_as_string(hide_password=False))
    except ImportError as error:
        raise Invalid(
            "An agent of google-adk keeps its sessions on PostgreSQL with google-adk's own database extra: "
            "pip install 'google-adk[db]' asyncpg."
        ) from error
