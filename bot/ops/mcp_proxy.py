"""`adk-confirm mcp-proxy`: the tools of the door's MCP servers for any MCP client, behind the policies."""

from __future__ import annotations

import asyncio

import click

from adk_confirm.bot.ops.ask import URL, own_token
from adk_confirm.bot.ops.command import seconds
from adk_confirm.runtime.errors import Invalid


@click.command("mcp-proxy")
@click.option("--door", "url", envvar=URL, required=True, metavar="URL", help=f"The door's address.  [env: {URL}]")
@click.option(
    "--hold", default="50s", metavar="TIME", callback=seconds, show_default=True, help="A call's, for people."
)
@click.option("--listen", default="", metavar="HOST:PORT", help="Speak streamable HTTP there, at /mcp, and not stdio.")
def mcp_proxy(url: str, hold: float, listen: str) -> None:
    """Give an MCP client the tools that the door's servers have. Each call waits for people, and runs in the bot.

    Over stdio the token is read from ADK_CONFIRM_DOOR_TOKEN. Over HTTP each client sends its own, as a bearer token.
    """
    token = "" if listen else own_token()
    try:
        from adk_confirm.bot.door.proxy import Proxy, over_http, over_stdio
    except ImportError as error:
        raise Invalid("This needs version 2 of the mcp package: install 'adk-confirm[mcp]'.") from error
    if listen:
        over_http(Proxy(url, token, hold), listen)
    else:
        asyncio.run(over_stdio(Proxy(url, token, hold)))
