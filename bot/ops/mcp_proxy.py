"""`adk-confirm mcp-proxy`: the tools of the door's MCP servers for any MCP client, behind the policies."""

from __future__ import annotations

import asyncio
import os

import click

from adk_confirm.bot.ops.ask import TOKEN, URL
from adk_confirm.bot.policy.durations import parse_duration
from adk_confirm.runtime.errors import Invalid


@click.command("mcp-proxy")
@click.option("--door", "url", envvar=URL, required=True, metavar="URL", help=f"The door's address.  [env: {URL}]")
@click.option("--hold", default="50s", metavar="TIME", show_default=True, help="How long a call waits for people.")
@click.option("--listen", default="", metavar="HOST:PORT", help="Speak streamable HTTP there, at /mcp, and not stdio.")
def mcp_proxy(url: str, hold: str, listen: str) -> None:
    """Give an MCP client the tools that the door's servers have. Each call waits for people, and runs in the bot.

    Over stdio the token is read from ADK_CONFIRM_DOOR_TOKEN. Over HTTP each client sends its own, as a bearer token.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not listen and not token:
        raise Invalid(f"Set {TOKEN} to the token of this caller.")
    try:
        seconds = parse_duration(hold).total_seconds()
    except ValueError as error:
        raise Invalid(f"--hold {error}.") from error
    try:
        from adk_confirm.bot.door.proxy import Proxy, over_http, over_stdio
    except ImportError as error:
        raise Invalid("This needs version 2 of the mcp package: install 'adk-confirm[mcp]'.") from error
    if listen:
        over_http(Proxy(url, None, seconds), listen)
    else:
        asyncio.run(over_stdio(Proxy(url, token, seconds)))
