"""Who may call the API: on loopback this machine's programs and named pages, elsewhere whoever has the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest

from adk_confirm import Agent, Runner, ScriptedModel
from adk_confirm.runtime.rest.guard import BadGuard, Guard, is_loopback
from tests.support.served import browsing, served

PAGE = "http://localhost:4200"
TOKEN = "a-secret-that-is-long"


@asynccontextmanager
async def guarded(guard: Guard) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(Runner(Agent("clerk", ScriptedModel())), guard=guard) as url, browsing(url) as http:
        yield http


async def answer(
    http: aiohttp.ClientSession, headers: Mapping[str, str], *, method: str = "GET", path: str = "/list-apps"
) -> tuple[int, Mapping[str, str], str]:
    async with http.request(method, path, headers=headers) as response:
        return response.status, response.headers, await response.text()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", ""])
async def test_on_loopback_a_name_from_elsewhere_is_refused(host: str) -> None:
    """A page that has pointed its own name at this machine looks like ours to its browser, but not to us."""
    async with guarded(Guard()) as http:
        for method, path in (("GET", "/list-apps"), ("GET", "/health"), ("POST", "/run")):
            status, _, text = await answer(http, {"Host": host}, method=method, path=path)
            assert (status, "Host" in text) == (403, True)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9000", "localhost.:80", "127.0.0.1:1", "[::1]:80", "127.1.2.3"]
)
async def test_this_machines_names_are_taken(host: str) -> None:
    async with guarded(Guard()) as http:
        assert (await answer(http, {"Host": host}))[0] == 200


async def test_a_request_names_one_host_or_none() -> None:
    """Programs that speak HTTP/1.0 name none; two are a trick."""
    async with served(Runner(Agent("clerk", ScriptedModel()))) as url:
        for hosts, expected in ((b"", b"200"), (b"Host: localhost\r\nHost: localhost\r\n", b"40")):
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.0\r\n" + hosts + b"\r\n")
            assert (await reader.readline()).split()[1].startswith(expected)
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:4200", "null", "http://127.0.0.1:1"])
async def test_a_page_from_elsewhere_is_refused(origin: str) -> None:
    async with guarded(Guard()) as http:
        status, headers, text = await answer(http, {"Origin": origin})
        assert (status, "--allow-origin" in text) == (403, True)
        assert "Access-Control-Allow-Origin" not in headers
        assert (await answer(http, {"Origin": origin}, method="OPTIONS", path="/run"))[0] == 403


async def test_a_page_of_our_own_address_is_taken() -> None:
    async with guarded(Guard()) as http:
        async with http.get("/health") as response:
            own = str(response.url.origin())
        assert (await answer(http, {"Origin": own}))[0] == 200


async def test_a_named_page_may_ask_and_read() -> None:
    async with guarded(Guard.of("127.0.0.1", None, [PAGE])) as http:
        status, headers, _ = await answer(http, {"Origin": PAGE})
        assert (status, headers["Access-Control-Allow-Origin"], headers["Vary"]) == (200, PAGE, "Origin")
        status, headers, _ = await answer(http, {"Origin": PAGE}, path="/apps/none/app-info")
        assert (status, headers["Access-Control-Allow-Origin"]) == (404, PAGE)
        asked = {
            "Origin": PAGE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
            "Access-Control-Request-Private-Network": "true",
        }
        status, headers, _ = await answer(http, asked, method="OPTIONS", path="/run_sse")
        assert (status, headers["Access-Control-Allow-Headers"]) == (204, "content-type")
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert headers["Access-Control-Allow-Private-Network"] == "true"
        assert (await answer(http, {"Origin": "https://evil.example"}))[0] == 403


async def test_a_named_pages_host_is_taken_too() -> None:
    """A proxy on this machine passes on the name that the page was asked by."""
    async with guarded(Guard.of("127.0.0.1", None, ["https://agents.example.com"])) as http:
        assert (await answer(http, {"Host": "agents.example.com"}))[0] == 200
        assert (await answer(http, {"Host": "other.example.com"}))[0] == 403


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é", TOKEN],
)
async def test_without_the_token_nobody_is_heard(given: str) -> None:
    async with guarded(Guard.of("0.0.0.0", TOKEN)) as http:
        for method, path in (("GET", "/list-apps"), ("POST", "/run"), ("GET", "/none"), ("DELETE", "/health")):
            headers = {"Authorization": given} if given else {}
            status, answered, text = await answer(http, headers, method=method, path=path)
            if path != "/health":
                assert (status, answered["WWW-Authenticate"]) == (401, "Bearer")
                assert "ADK_CONFIRM_API_TOKEN" in text
        assert (await answer(http, {}, path="/health"))[0] == 200  # for whoever watches over it


async def test_with_the_token_everybody_is_heard() -> None:
    async with guarded(Guard.of("0.0.0.0", TOKEN, [PAGE])) as http:
        assert (await answer(http, {"Authorization": f"Bearer {TOKEN}", "Host": "agents.example.com"}))[0] == 200
        assert (await answer(http, {"Authorization": f"bearer  {TOKEN} "}))[0] == 200
        assert (await answer(http, {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}))[0] == 403
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}  # browsers ask without it
        assert (await answer(http, asked, method="OPTIONS", path="/run"))[0] == 204


async def test_a_token_on_loopback_is_asked_for_too() -> None:
    async with guarded(Guard.of("127.0.0.1", TOKEN)) as http:
        assert (await answer(http, {}))[0] == 401
        assert (await answer(http, {"Authorization": f"Bearer {TOKEN}"}))[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "agents.example.com", "127.0.0.1.evil.example"])
def test_off_loopback_there_must_be_a_token(host: str) -> None:
    for token in (None, "", "fifteen-letters"):
        with pytest.raises(BadGuard, match="ADK_CONFIRM_API_TOKEN"):
            Guard.of(host, token)
    assert Guard.of(host, TOKEN).token == TOKEN


@pytest.mark.parametrize(
    "origin", ["*", "localhost:4200", "http://", "http://a/b", "http://a?b", "ftp://a", "http://*.a"]
)
def test_an_origin_is_an_origin(origin: str) -> None:
    with pytest.raises(BadGuard, match="is not an origin"):
        Guard.of("127.0.0.1", None, [origin])


def test_what_only_this_machine_reaches() -> None:
    assert all(is_loopback(host) for host in ("localhost", "LocalHost.", "127.0.0.1", "127.9.9.9", "::1", "[::1]"))
    assert not any(is_loopback(host) for host in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil", "1"))
