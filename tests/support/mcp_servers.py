"""MCP servers for tests: real processes that report what they do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from adk_confirm.runtime.mcp.toolset import HttpConnection, StdioConnection
from tests.support.forked import Begun, ForkServer
from tests.support.waiting import until

OFFICIAL = ForkServer(
    *("mcp.server.mcpserver", "mcp.server.fastmcp", "mcp.server.streamable_http_manager", "uvicorn"),
    *("adk_confirm.bot.ops.door", "adk_confirm.bot.door.proxy"),
)
"""The second is the first's name in major version 1."""
SERVER = Path(__file__).with_name("mcp_server.py")


class Watched:
    """What the servers report, in one place: `said` has every line so far, `heard` waits for one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        self.said: list[str] = []

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._listen, self._path)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while line := await reader.readline():
                async with self._changed:
                    self.said.append(line.decode().rstrip("\n"))
                    self._changed.notify_all()
        except ConnectionResetError:
            return  # killed, as some tests do

    async def heard(self, line: str, times: int = 1) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.said.count(line) >= times)

    async def pids(self, count: int = 1) -> list[int]:
        """The processes of the first `count` servers that were started."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._lines_beginning("pid ")) >= count)
        return [int(line.removeprefix("pid ")) for line in self._lines_beginning("pid ")]

    def ran(self) -> list[str]:
        """What the tools did, in order."""
        return [line for line in self.said if not line.startswith("pid ")]

    def go_on(self) -> None:
        """Lets every waiting tool go on."""
        for writer in self._writers:
            writer.write(b"go on\n")

    def _lines_beginning(self, beginning: str) -> list[str]:
        return [line for line in self.said if line.startswith(beginning)]

    def stdio(self, **env: str) -> StdioConnection:
        """A server of the official package."""
        return self._connection(OFFICIAL.command("tests.support.mcp_server", "stdio"), env)

    def bare(self, **env: str) -> StdioConnection:
        """The same tools without that package, for tests of the server's process."""
        return self._connection([sys.executable, str(SERVER), "bare"], env)

    def modern(self) -> StdioConnection:
        """The same, in the revision 2026-07-28 only."""
        return self._connection([sys.executable, str(SERVER), "modern"], {})

    def _connection(self, command: Sequence[str], env: dict[str, str]) -> StdioConnection:
        return StdioConnection(command[0], [*command[1:]], env={"WATCH": str(self._path), **env})

    @asynccontextmanager
    async def http(self, port: int) -> AsyncIterator[tuple[HttpConnection, Begun]]:
        """A server that listens until the block ends."""
        env = {**os.environ, "WATCH": str(self._path), "PORT": str(port)}
        process = OFFICIAL.begin("tests.support.mcp_server", "http", env=env, loud=bool(os.environ.get("MCP_LOUD")))
        try:
            await until(lambda: accepts(port))  # MCP_LOUD=1 shows what it says
            yield HttpConnection(f"http://127.0.0.1:{port}/mcp", headers={"X-Who": "tests"}), process
        finally:
            process.kill()


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
