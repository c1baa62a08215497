"""google-genai without a network: in this process, a script answers every request to Gemini.

Everything above the socket is the same as in production, for google-adk and for us: the SDK, its types, and the
request's body as bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import aiohttp

MODEL = "gemini-2.5-flash"
WORDS = "please pay"  # people's message; the model answers it with a call, and the call's result with a text
TOOL = "reimburse"
DONE = "Done."


def _answer(part: dict[str, object]) -> str:
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    return json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL})


_CALLS = _answer({"functionCall": {"name": TOOL, "args": {"purpose": "trip", "amount": 1500}}})
_SPEAKS = _answer({"text": DONE})


class _Response(aiohttp.ClientResponse):
    status = 200
    headers: ClassVar[dict[str, str]] = {"content-type": "application/json"}  # type: ignore[assignment]  # aiohttp's is a property

    def __init__(self, body: str) -> None:
        self._text = body

    def __del__(self, *_: object) -> None:
        """Does nothing: there is no connection to close."""

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:  # noqa: ARG002  (aiohttp's)
        return self._text


@contextmanager
def scripted_gemini() -> Iterator[None]:
    async def sent(_: aiohttp.ClientSession, *__: object, data: bytes, **___: object) -> object:
        await asyncio.sleep(0)
        return _Response(_SPEAKS if data.rfind(b"functionResponse") > data.rfind(WORDS.encode()) else _CALLS)

    with (
        mock.patch.object(aiohttp.ClientSession, "_request", sent),
        mock.patch.dict("os.environ", {"GEMINI_API_KEY": "none", "GOOGLE_GENAI_USE_VERTEXAI": ""}),
    ):
        yield
