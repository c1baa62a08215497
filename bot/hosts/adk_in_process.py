"""Runs agents of google-adk in this process, behind our plugin. Their sessions are kept next to the bot's own store.

For an agent or an `App`, the bot makes a `Runner`. Its other services are those of google-adk's command line: artifacts
in files (here next to the bot's store), memory and credentials in this process's memory. `[agent]` can replace each by
an address that google-adk's command line accepts, or by an object. A given `Runner` is used as it is.

Runs happen in a separate thread: a tool that blocks holds up other tools, as on any ADK server, but not the answers to
Slack.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import Host, HostFailed, ServerInfo, Unreachable
from adk_confirm.runtime.errors import Invalid, read_error
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import sqlite_path
from adk_confirm.runtime.store.private_files import make_private_file, make_private_folder
from adk_confirm.runtime.target import BadTarget, load_object
from adk_confirm.runtime.wire import Content, SessionId

if TYPE_CHECKING:
    from google.adk.apps.app import App
    from google.adk.artifacts.base_artifact_service import BaseArtifactService
    from google.adk.events.event import Event
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import Runner
    from google.adk.sessions.base_session_service import BaseSessionService


T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(
        self, function: Callable[[], Coroutine[Any, Any, T]], stopping: Callable[[], None] | None = None
    ) -> T:
        """Awaits a coroutine in the thread and returns its result, or raises its error. If the caller is cancelled, so
        is the coroutine, after a call of `stopping` in the thread, and the caller waits until it has ended."""
        result, tasks = Future[T](), list[asyncio.Task[T]]()

        def begin() -> None:
            tasks.append(self._loop.create_task(function()))
            tasks[0].add_done_callback(end)

        def cancel() -> None:
            if stopping is not None:
                stopping()
            tasks[0].cancel()

        def end(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                result.cancel()
            elif (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())

        self._loop.call_soon_threadsafe(begin)
        ended = asyncio.wrap_future(result)
        ended.add_done_callback(read_error)
        try:
            return await asyncio.shield(ended)
        finally:
            if not result.done():
                self._loop.call_soon_threadsafe(cancel)
                await asyncio.wait({ended})

    async def iterate(
        self, function: Callable[[], AsyncGenerator[T, None]], stopping: Callable[[], None] | None = None
    ) -> AsyncGenerator[T, None]:
        """Yields what an iterator in the thread yields. If the caller stops early, the iterator is cancelled, and the
        caller waits until it has ended."""
        here, heard = asyncio.get_running_loop(), asyncio.Queue[tuple[T] | None]()

        async def listened() -> None:
            async with aclosing(function()) as made:
                async for one in made:
                    here.call_soon_threadsafe(heard.put_nowait, (one,))

        listening = asyncio.create_task(self.call(listened, stopping))
        listening.add_done_callback(read_error)
        listening.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (one := await heard.get()) is not None:
                yield one[0]
            await listening
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def close(self) -> None:
        """Cancels what still runs in the thread. Returns when the thread has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with self._runner:
            self._loop.run_forever()


log = logging.getLogger(__name__)

IN_MEMORY = (
    "The agent's sessions are kept in memory: when this process ends, what waits for a decision is lost, and what was "
    "said is forgotten. Give the Runner a session service on a database."
)

ARTIFACTS_IN_MEMORY = (
    "The agent's artifacts are kept in memory, and are gone when this process ends. Set artifact_service in [agent]."
)


def _runs_in_turn(agent: object) -> bool:
    """Whether this agent or one below it runs others one after the other."""
    kinds = {one.__name__ for one in type(agent).__mro__}
    return bool({"SequentialAgent", "LoopAgent"} & kinds) or any(map(_runs_in_turn, getattr(agent, "sub_agents", ())))


class AdkServer:
    """Uses a google-adk runner like a server."""

    patience = 5.0
    """Seconds before a lost message is sent again. A run that broke off in this process has ended already."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.app = runner, runner.app_name
        self._apart = LoopThread("google-adk")
        self._version = version("google-adk")  # cached, since it reads a file and is asked often
        config = runner.resumability_config
        self._ends_early = not (config is not None and config.is_resumable) and _runs_in_turn(runner.agent)
        self._takes_abort = "abort_signal" in inspect.signature(runner.run_async).parameters  # since google-adk 2.11

    async def about(self) -> ServerInfo:
        name = f"google-adk {self._version} in this process"
        return ServerInfo(name=name, metadata=True, notes=self.notes(), ends_early=self._ends_early)

    def notes(self) -> tuple[str, ...]:
        """What the operator should know about this agent."""
        found = list[str]()
        if is_in_memory(self.runner.session_service):
            found.append(IN_MEMORY)
        elif is_in_memory(self.runner.artifact_service):
            found.append(ARTIFACTS_IN_MEMORY)
        return tuple(found)

    async def events(self, session: SessionId) -> list[JsonObject] | None:
        async def read() -> list[JsonObject] | None:
            found = await self.runner.session_service.get_session(
                app_name=session.app, user_id=session.user_id, session_id=session.id
            )
            return None if found is None else [_json(event) for event in found.events]

        with _unreachable():
            return await self._apart.call(read)

    async def create(self, session: SessionId) -> None:
        async def created() -> None:
            await self.runner.session_service.create_session(
                app_name=session.app, user_id=session.user_id, session_id=session.id
            )

        with _unreachable():
            await self._apart.call(created)

    async def run(self, session: SessionId, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        aborted = asyncio.Event()  # if set before a run is cancelled, google-adk notes its end
        async for event in self._apart.iterate(lambda: self._run(session, message, extra, aborted), aborted.set):
            yield event

    async def _run(
        self, session: SessionId, message: Content, extra: JsonObject, aborted: asyncio.Event
    ) -> AsyncGenerator[JsonObject, None]:
        from google.adk.agents.run_config import RunConfig
        from google.genai import types

        told: dict[str, Any] = {"abort_signal": aborted} if self._takes_abort else {}
        config = {"streaming_mode": "sse", "custom_metadata": extra.get("customMetadata")}
        running = self.runner.run_async(
            user_id=session.user_id,
            session_id=session.id,
            new_message=types.Content.model_validate(message.to_dict()),
            run_config=RunConfig.model_validate(config),
            **told,
        )
        try:
            async for event in running:
                yield _json(event)
        except Exception as error:
            # The agent, its tools or its session service may raise anything. The session shows how far the run got.
            raise HostFailed(f"The agent failed: {type(error).__name__}.").quoting(str(error)[:300]) from error
        finally:
            await running.aclose()

    async def close(self) -> None:
        async def closed() -> None:
            await self.runner.close()
            closing = getattr(self.runner.session_service, "close", None)  # services with a database have it
            if closing is not None:
                await closing()

        await self._apart.call(closed)
        await self._apart.close()


@contextmanager
def _unreachable() -> Iterator[None]:
    """Turns any database error into `Unreachable`: reading changes nothing, and a session is created before any
    message."""
    try:
        yield
    except Exception as error:
        raise Unreachable(f"The agent's sessions can't be reached: {type(error).__name__}: {error}") from error


def _json(event: Event) -> JsonObject:
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


# Services


def session_service(store_url: str) -> BaseSessionService:
    """A session service that is as durable as the bot's own store."""
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    path = _file(store_url)
    if path is not None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        file = path.with_name(f"{path.stem}-adk{path.suffix}")

        class PrivateSessions(SqliteSessionService):
            """Makes the file only when a session is looked for or created, so that `check` leaves none behind."""

            async def create_session(self, **given: Any) -> Any:
                make_private_file(file)
                return await super().create_session(**given)

            async def get_session(self, **given: Any) -> Any:
                make_private_file(file)
                return await super().get_session(**given)

        try:
            sqlite: BaseSessionService = PrivateSessions(str(file))
            return sqlite
        except RuntimeError as error:
            raise Invalid(f"The agent's sessions can't be opened: {error}") from error
    scheme, _, place = store_url.partition(":")
    if not scheme.startswith("postgres"):
        return InMemorySessionService()
    try:
        from google.adk.sessions.database_session_service import DatabaseSessionService

        postgresql: BaseSessionService = DatabaseSessionService(f"postgresql+psycopg:{place}")
        return postgresql
    except ImportError as error:
        raise Invalid(
            "An agent of google-adk keeps its sessions on PostgreSQL with google-adk's own database extra: "
            "pip install 'google-adk[db]' 'adk-confirm[postgres]'."
        ) from error


def artifact_service(given: Mapping[str, str], store_url: str) -> BaseArtifactService:
    from google.adk.artifacts.base_artifact_service import BaseArtifactService
    from google.adk.artifacts.file_artifact_service import FileArtifactService
    from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService

    artifacts: BaseArtifactService | None = _configured(given, "artifact_service", BaseArtifactService)
    if artifacts is not None:
        return artifacts
    path = _file(store_url)
    if path is None:
        return InMemoryArtifactService()
    try:
        return FileArtifactService(make_private_folder(path.with_name(f"{path.stem}-adk-artifacts")))
    except OSError as error:
        raise Invalid(f"The agent's artifacts can't be kept next to the store: {error.strerror or error}") from error


def services_in_memory(given: Mapping[str, str]) -> dict[str, Any]:
    """The services for memory and credentials: in this process's memory, unless the settings name others."""
    from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
    from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
    from google.adk.memory.base_memory_service import BaseMemoryService
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

    memory = _configured(given, "memory_service", BaseMemoryService) or InMemoryMemoryService()
    credentials = _configured(given, "credential_service", BaseCredentialService) or InMemoryCredentialService()
    return {"memory_service": memory, "credential_service": credentials}


def is_in_memory(service: object) -> bool:
    return type(service).__name__.startswith("InMemory")


def _configured(given: Mapping[str, str], key: str, kind: type[Any]) -> Any:
    """The service that the settings name, or None. Raises `BadTarget` if it is not of this kind."""
    from google.adk.cli.service_registry import get_service_registry

    value = given.get(key)
    if value is None:
        return None
    # The function with which google-adk's command line makes such a service. It has none for credential services.
    made = getattr(get_service_registry(), f"create_{key}", None) if "://" in value else None
    if made is not None:
        scheme = value.partition("://")[0]
        try:
            service = made(value, agents_dir=str(Path.cwd()))
        except Exception as error:
            # The library may raise anything. The address is left out, since it may contain secrets.
            raise BadTarget(f"[agent] {key}: {scheme}://… can't be opened: {type(error).__name__}.") from error
        if service is None:
            raise BadTarget(f"[agent] {key}: google-adk does not support {scheme}:// here.")
    else:
        found = load_object(value)
        service = found() if isinstance(found, type) or (callable(found) and not isinstance(found, kind)) else found
    if not isinstance(service, kind):
        raise BadTarget(f"[agent] {key}: {value} is of the type {type(service).__name__}; {kind.__name__} is needed.")
    return service


def _file(store_url: str) -> Path | None:
    """The store's file, if the store is a file."""
    return None if store_url.startswith("postgres") else sqlite_path(store_url)


# An agent


def open_adk(
    target: object,
    name: str,
    store_url: str,
    clock: Callable[[], float] | None = None,
    services: Mapping[str, str] | None = None,
) -> Host:
    """Opens google-adk's `target`: an agent, a workflow, an `App` or a `Runner`. `name` is how the settings name it,
    `services` are the services from the settings."""
    from google.adk.runners import Runner

    services = services or {}
    if isinstance(target, Runner):
        if services:
            raise BadTarget(
                f"{name} is a Runner, which brings its services: remove {', '.join(services)} from [agent]."
            )
        runner = target
        secret = _put_plugin_first(runner.plugin_manager.plugins)
    else:
        app = _app(target, name)
        plugins = list(app.plugins)
        secret = _put_plugin_first(plugins)
        runner = Runner(
            app=app.model_copy(update={"plugins": plugins}),
            session_service=session_service(store_url),
            artifact_service=artifact_service(services, store_url),
            **services_in_memory(services),
        )
    server = AdkServer(runner)
    for note in server.notes():
        log.warning("%s: %s", name, note)
    return AdkHost(server, secret=secret, clock=clock)


def _app(target: object, name: str) -> App:
    """Makes an agent's app resumable, since a `SequentialAgent` would otherwise end with its first approval. A workflow
    needs no change."""
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App, ResumabilityConfig

    if isinstance(target, App):
        return target
    resumable = ResumabilityConfig(is_resumable=True) if isinstance(target, BaseAgent) else None
    if resumable is None and not _is_node(target):
        kind = type(target).__name__
        raise BadTarget(f"{name} is google-adk's {kind}: an agent, a workflow, an App or a Runner is needed here.")
    try:
        return App(name=getattr(target, "name", ""), root_agent=target, resumability_config=resumable)
    except ValueError as error:
        raise BadTarget(f"{name} can't be made an App of google-adk, so give one: {error}") from error


def _is_node(target: object) -> bool:
    """Whether it is a workflow, or another node that google-adk 2 runs."""
    try:
        from google.adk.workflow import BaseNode
    except ImportError:
        return False
    return isinstance(target, BaseNode)


def _put_plugin_first(plugins: list[BasePlugin]) -> str | None:
    """Puts our plugin before all others, and returns its secret. google-adk asks no further plugin once one has
    answered. Only its `ToolCallIntegrityPlugin` stays in front: it compares calls before ours edits them."""
    from adk_confirm import ConfirmationPlugin

    ours = next((one for one in plugins if isinstance(one, ConfirmationPlugin)), None)
    if ours is None:
        ours = ConfirmationPlugin(unsigned=True)
    else:
        plugins.remove(ours)
    before = bool(plugins) and type(plugins[0]).__name__ == "ToolCallIntegrityPlugin"
    plugins.insert(int(before), ours)
    return ours.secrets[0] if ours.secrets else None
