"""Agents of google-adk in this process, behind our plugin. Their sessions are kept beside the bot's own store.

Given an agent or an `App`, the bot makes a `Runner` for it; given a `Runner`, it takes that with its session service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from bot.hosts.foreign import About
from bot.hosts.host import Failed, Unreachable
from bot.row import SessionKey
from runtime.errors import Invalid
from runtime.jsontypes import JsonObject
from runtime.target import BadTarget
from runtime.wire import Content

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.runners import Runner
    from google.adk.sessions.base_session_service import BaseSessionService
    from google.adk.sessions.session import Session


def is_googles(target: object) -> bool:
    """Whether this is google-adk's, so that it needs this host. Looks without importing anything."""
    return any(base.__module__.startswith("google.adk") for base in type(target).__mro__)


class AdkServer:
    """The runner, in the terms of a server. What breaks off here has ended: nothing arrives later."""

    patience = 0.0

    def __init__(self, runner: Runner, own_sessions: BaseSessionService | None = None) -> None:
        self._runner, self._own_sessions = runner, own_sessions

    @property
    def app(self) -> str:
        return self._runner.app_name

    async def about(self) -> About:
        config = self._runner.resumability_config
        return About(
            name=f"google-adk {version('google-adk')} in this process",
            metadata=True,
            invocation=True,
            resumable=config is not None and config.is_resumable,
        )

    async def events(self, session: SessionKey) -> list[JsonObject] | None:
        found = await self._session(session)
        return None if found is None else [_json(event) for event in found.events]

    async def create(self, session: SessionKey) -> None:
        await self._runner.session_service.create_session(
            app_name=session.app, user_id=session.user, session_id=session.id
        )

    async def run(self, session: SessionKey, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        from google.adk.agents.run_config import RunConfig
        from google.genai import types

        metadata, invocation = extra.get("customMetadata"), extra.get("invocationId")
        running = self._runner.run_async(
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
        await self._runner.close()
        closing = getattr(self._own_sessions, "close", None)  # those on a database have it
        if closing is not None:
            await closing()

    async def _session(self, session: SessionKey) -> Session | None:
        try:
            return await self._runner.session_service.get_session(
                app_name=session.app, user_id=session.user, session_id=session.id
            )
        except Exception as error:
            # Any database's own errors: nothing was changed by looking.
            raise Unreachable(f"The agent's sessions can't be read: {type(error).__name__}: {error}") from error


def _json(event: Event) -> JsonObject:
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def open_adk(target: object, name: str, store_url: str) -> AdkServer:
    """`target` is a google-adk agent, `App` or `Runner`; `name` is what it was asked for by."""
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App
    from google.adk.runners import Runner

    from runtime.adk_plugin import ConfirmationPlugin

    if isinstance(target, Runner):
        if not any(isinstance(one, ConfirmationPlugin) for one in target.plugin_manager.plugins):
            target.plugin_manager.register_plugin(ConfirmationPlugin())
        return AdkServer(target)
    if isinstance(target, App):
        app = target
    elif isinstance(target, BaseAgent):
        app = App(name=target.name, root_agent=target)
    else:
        kind = type(target).__name__
        raise BadTarget(f"{name} is google-adk's {kind}: an agent, an App or a Runner is needed here.")
    if not any(isinstance(one, ConfirmationPlugin) for one in app.plugins):
        app = app.model_copy(update={"plugins": [*app.plugins, ConfirmationPlugin()]})
    sessions = _sessions(store_url)
    return AdkServer(Runner(app=app, session_service=sessions), sessions)


def _sessions(store_url: str) -> BaseSessionService:
    """As durable as the bot's own store."""
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    url = make_url("sqlite://" if store_url == ":memory:" else store_url)
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            return InMemorySessionService()
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        path = Path(url.database)
        return SqliteSessionService(str(path.with_name(f"{path.stem}-adk{path.suffix}")))
    try:
        from google.adk.sessions.database_session_service import DatabaseSessionService

        url = url.set(drivername="postgresql+asyncpg")
        return DatabaseSessionService(url.render_as_string(hide_password=False))
    except ImportError as error:
        raise Invalid(
            "An agent of google-adk keeps its sessions on PostgreSQL with google-adk's own database extra: "
            "pip install 'google-adk[db]' asyncpg."
        ) from error
