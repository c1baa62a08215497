"""A small OAuth provider with an API behind it, strict about codes, redirects, clients and PKCE."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from aiohttp import ClientSession, web

CLIENT, CLIENT_SECRET = "calendar-client", "client-secret-5f0c81"
API_KEY = "api-key-77b1c0de"


@dataclass
class Provider:
    url: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    issued: list[str] = field(default_factory=list)
    """All codes and tokens that it ever issued. No output may contain them."""

    @property
    def secrets(self) -> list[str]:
        return [*self.issued, CLIENT_SECRET, API_KEY]

    async def allows(self, address: str) -> str:
        """Somebody opens the address in a browser and allows the app. Returns where the browser is sent."""
        async with ClientSession() as http, http.get(address, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
            return answer.headers["Location"]

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        if asked.get("client_id") != CLIENT or not asked.get("redirect_uri") or not asked.get("state"):
            return web.Response(status=400, text="client_id, redirect_uri and state are wanted")
        if len(request.query.getall("redirect_uri")) != 1 or len(request.query.getall("state")) != 1:
            return web.Response(status=400, text="a parameter is there twice")
        code = f"4/code-{secrets.token_hex(8)}+=%"
        self.codes[code] = asked
        self.issued += [code, quote(code, safe="")]
        mark = "&" if "?" in asked["redirect_uri"] else "?"
        return web.Response(
            status=302,
            headers={"Location": f"{asked['redirect_uri']}{mark}code={quote(code, safe='')}&state={asked['state']}"},
        )

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form.get("code")), None)
        if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
            return web.json_response({"error": "invalid_grant"}, status=400)
        if not self._client_is_ours(request):
            return web.json_response({"error": "invalid_client"}, status=401)
        if (challenge := asked.get("code_challenge")) is not None:
            digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
                return web.json_response({"error": "invalid_grant"}, status=400)
        token, refresh = f"token-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.tokens.add(token)
        self.issued += [token, refresh]
        return web.json_response({"access_token": token, "refresh_token": refresh, "token_type": "Bearer"})

    def _client_is_ours(self, request: web.Request) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind == "Basic" and unquote(base64.b64decode(given).decode()) == f"{CLIENT}:{CLIENT_SECRET}"

    async def _events(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.tokens and request.headers.get("X-Api-Key") != API_KEY:
            return web.json_response({"error": "who are you?"}, status=401)
        return web.json_response({"events": ["standup", "lunch"]})


@asynccontextmanager
async def provider(port: int = 0) -> AsyncIterator[Provider]:
    made, site = Provider(), web.Application()
    site.router.add_get("/authorize", made._authorize)
    site.router.add_post("/token", made._token)
    site.router.add_get("/events", made._events)
    served = web.AppRunner(site)
    await served.setup()
    await web.TCPSite(served, "127.0.0.1", port).start()
    made.url = f"http://127.0.0.1:{served.addresses[0][1]}"
    try:
        yield made
    finally:
        await served.cleanup()
