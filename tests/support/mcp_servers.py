"""MCP servers for tests: real processes that report what they do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.mcp.toolset import HttpConnection, StdioConnection

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
        return StdioConnection(sys.executable, [str(SERVER), "stdio"], env={"WATCH": str(self._path), **env})

    @asynccontextmanager
    async def http(self, port: int) -> AsyncIterator[tuple[HttpConnection, asyncio.subprocess.Process]]:
        """A server that listens until the block ends."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVER),
            "http",
            env={**os.environ, "WATCH": str(self._path), "PORT": str(port)},
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        lines: list[bytes] = []
        while not (lines and b"Uvicorn running" in lines[-1]):
            lines.append(await process.stderr.readline())
            assert lines[-1], b"".join(lines).decode()
        reading = asyncio.create_task(process.stderr.read())  # a full pipe would stop the server
        try:
            yield HttpConnection(f"http://127.0.0.1:{port}/mcp", headers={"X-Who": "tests"}), process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
