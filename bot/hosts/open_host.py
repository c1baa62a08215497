"""Opens the host that `[agent]` in the settings names."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta

from adk_confirm.bot.config.settings import LEASE, AgentSettings
from adk_confirm.bot.hosts.host import Host
from adk_confirm.runtime.adk.signing import checked_secret
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.sessions import OnChange


async def open_host(
    agent: AgentSettings,
    database: Database,
    clock: Callable[[], float] | None = None,
    *,
    lease: timedelta = LEASE,
    store_url: str = "sqlite://",
    on_change: OnChange | None = None,
    asks_why: Callable[[str], bool] | None = None,
) -> Host:
    """Opens the host that the settings file names. google-adk's sessions are kept next to `store_url`. Our own
    runtime tells `on_change` what becomes of calls, and asks the model why it calls the tools that `asks_why` names."""
    if agent.url is not None:
        return _remote_host(agent, agent.url, clock)
    from adk_confirm.runtime.target import load_agent, load_object

    assert agent.target is not None
    target = load_object(agent.target)
    if is_googles(target):
        from adk_confirm.bot.hosts.adk_in_process import open_adk

        return open_adk(target, agent.target, store_url, clock, agent.services)
    if agent.services:
        raise Invalid(
            f"[agent] {next(iter(agent.services))} is for agents of google-adk; {agent.target} is not one. Remove it."
        )
    from adk_confirm.bot.hosts.embedded import EmbeddedHost

    return EmbeddedHost(
        load_agent(agent.target), database, clock, on_change, lease_term=lease.total_seconds(), asks_why=asks_why
    )


def is_googles(target: object) -> bool:
    """Whether the object is google-adk's. Does not import google-adk."""
    return any(f"{base.__module__}.".startswith("google.adk.") for base in type(target).__mro__)


def _remote_host(agent: AgentSettings, url: str, clock: Callable[[], float] | None) -> Host:
    from adk_confirm.bot.hosts.adk_host import AdkHost
    from adk_confirm.bot.hosts.remote import RemoteServer

    headers = dict(agent.headers)
    if agent.token_env is not None:
        token = _read_variable(agent.token_env, "token_env").strip()
        if not token.isprintable():
            raise Invalid(f"[agent] token_env: {agent.token_env} has an invisible character in it: a token has none.")
        headers["Authorization"] = f"Bearer {token}"
    secret = None
    if agent.secret_env is not None:
        secret = checked_secret(
            _read_variable(agent.secret_env, "secret_env"), f"[agent] secret_env: {agent.secret_env}"
        )
    assert agent.app is not None
    server = RemoteServer(url, agent.app, headers=headers, timeout=agent.timeout.total_seconds())
    return AdkHost(server, secret=secret, clock=clock)


def _read_variable(name: str, key: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise Invalid(f"[agent] {key}: the environment has no {name}; set it, or remove this.")
    return value
