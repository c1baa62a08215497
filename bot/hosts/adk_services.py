"""The services of a google-adk agent besides its sessions: artifacts, memory and credentials.

The defaults are those of google-adk's command line: artifacts in files (here next to the bot's store), memory and
credentials in this process's memory. `[agent]` can replace each by an address that google-adk's command line accepts,
or by an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import sqlite_path
from adk_confirm.runtime.store.private import make_private_file, make_private_folder
from adk_confirm.runtime.target import BadTarget, load_object

if TYPE_CHECKING:
    from google.adk.artifacts.base_artifact_service import BaseArtifactService
    from google.adk.sessions.base_session_service import BaseSessionService

ARTIFACTS_IN_MEMORY = (
    "The agent's artifacts are kept in memory, and are gone when this process ends. Set artifact_service in [agent]."
)


def session_service(store_url: str) -> BaseSessionService:
    """A session service that is as durable as the bot's own store."""
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    path = _file(store_url)
    if path is not None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        file = path.with_name(f"{path.stem}-adk{path.suffix}")

        class PrivateSessions(SqliteSessionService):
            """Makes the file when a session is looked for, which comes first: `check` leaves none behind."""

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
    """Those for memory and credentials: in this process's memory, unless others are given."""
    from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
    from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
    from google.adk.memory.base_memory_service import BaseMemoryService
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

    memory = _configured(given, "memory_service", BaseMemoryService)
    credentials = _configured(given, "credential_service", BaseCredentialService)
    return {
        "memory_service": InMemoryMemoryService() if memory is None else memory,
        "credential_service": InMemoryCredentialService() if credentials is None else credentials,
    }


def is_in_memory(service: object) -> bool:
    return type(service).__name__.startswith("InMemory")


def _configured(given: Mapping[str, str], key: str, kind: type[Any]) -> Any:
    """The service that the settings name, or None. Raises `BadTarget` if it is not of this kind."""
    value = given.get(key)
    if value is None:
        return None
    if "://" in value and (made := _factory(key)) is not None:
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


def _factory(key: str) -> Callable[..., object] | None:
    """What google-adk's command line makes such a service with. It makes no credential services."""
    from google.adk.cli.service_registry import get_service_registry

    return getattr(get_service_registry(), f"create_{key}", None)


def _file(store_url: str) -> Path | None:
    """The store's file, if the store is a file."""
    return None if store_url.startswith("postgres") else sqlite_path(store_url)
