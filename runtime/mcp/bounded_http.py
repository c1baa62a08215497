"""Reads an MCP server's HTTP answers within limits. Versions 1 and 2 of `mcp` use different packages (`httpx`,
`httpx2`) with the same interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

MOST_BYTES = 8 * 1024 * 1024
"""The most bytes of a body, or of one event in a stream. A whole stream may be longer: it lasts as long as the
connection."""

_ENDS_OF_EVENTS = (b"\n\n", b"\r\r", b"\r\n\r\n")


def bounded_transport(httpx: Any) -> Any:
    """A transport for `httpx.AsyncClient`. An answer that is too long fails like a broken connection; a compressed one
    is refused."""

    class BoundedStream(httpx.AsyncByteStream):  # type: ignore[misc]  # the package is known at run time only
        def __init__(self, stream: Any, events: bool) -> None:
            self._stream, self._events = stream, events

        async def __aiter__(self) -> AsyncIterator[bytes]:
            held, last = 0, b""
            async for part in self._stream:
                held = _unfinished_bytes(held, last, part) if self._events else held + len(part)
                if held > MOST_BYTES:
                    raise httpx.StreamError(f"The MCP server sent more than {MOST_BYTES >> 20} MB at once.")
                last = (last + part)[-3:]
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Transport(httpx.AsyncHTTPTransport):  # type: ignore[misc]  # likewise
        async def handle_async_request(self, request: Any) -> Any:
            request.headers["Accept-Encoding"] = "identity"
            response = await super().handle_async_request(request)
            packed = response.headers.get("content-encoding", "identity")
            if packed.lower() != "identity":
                await response.aclose()
                raise httpx.RemoteProtocolError(f"The MCP server sent a compressed answer ({packed:.20}).")
            events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            response.stream = BoundedStream(response.stream, events)
            return response

    return Transport()


def _unfinished_bytes(held: int, last: bytes, part: bytes) -> int:
    """How many bytes of an unfinished event were read, including this part. `last`: the end of the previous part."""
    seen = last + part
    end = max((seen.rfind(mark) + len(mark) for mark in _ENDS_OF_EVENTS if mark in seen), default=0)
    return held + len(part) if end <= len(last) else len(seen) - end
