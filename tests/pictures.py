"""Makes the README's animated picture from the demo's own page: `make picture`.

ana asks, ben and chris see the plan and approve, it is done.
The picture is an animated PNG, put together from the browser's own: the conversation alone, without what the page has
around it, and with a label that says who acts.
"""

from __future__ import annotations

import asyncio
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from playwright.async_api import FloatRect, Locator, Page, expect

from adk_confirm.demo.stage import Demo, running_demo
from adk_confirm.demo.tour import FIRST
from tests.sandbox.page.visitor import Visitor
from tests.support.browser import chromium

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "story.png"
WIDTH, HEIGHT, SCALE = 500, 580, 1.25
CARD = 3
"""The picture that is shown where nothing moves."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HAND = """(at) => {
  document.getElementById("hand")?.remove();
  if (!at) return;
  const hand = document.createElement("div");
  hand.id = "hand";
  hand.popover = "manual";
  Object.assign(hand.style, {
    position: "fixed", inset: "auto", left: `${at.x - 19}px`, top: `${at.y - 19}px`, width: "38px", height: "38px",
    margin: 0, padding: 0, borderRadius: "50%", border: "3px solid #f5c451", background: "rgb(245 196 81 / 35%)",
  });
  document.body.append(hand);
  hand.showPopover();
}"""


_LABEL = """([text, top]) => {
  document.getElementById("label")?.remove();
  const label = document.createElement("div");
  label.id = "label";
  label.textContent = text;
  Object.assign(label.style, {
    position: "fixed", top: `${top + 13}px`, right: "16px", padding: "4px 14px", borderRadius: "16px", zIndex: 9,
    background: "#4a154b", color: "white", font: "600 15px system-ui, sans-serif",
  });
  document.body.append(label);
}"""


@dataclass
class Film:
    page: Page
    top: float
    label: str = ""
    frames: list[tuple[bytes, int]] = field(default_factory=list)

    async def take(self, milliseconds: int) -> None:
        await self.page.mouse.move(0, 0)
        await self.page.evaluate("document.activeElement.blur()")
        await self.page.evaluate(_LABEL, [self.label, self.top])
        clip: FloatRect = {"x": 0, "y": self.top, "width": WIDTH, "height": HEIGHT}
        shot = await self.page.screenshot(animations="disabled", caret="hide", clip=clip)
        self.frames.append((shot, milliseconds))

    async def clicks(self, what: Locator) -> None:
        """Shows where the click goes, then clicks."""
        await self.page.wait_for_timeout(1000)  # a card that is redrawn in between would be another element
        await what.scroll_into_view_if_needed()
        box = await what.bounding_box()
        assert box is not None
        await self.page.evaluate(_HAND, {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2})
        await self.take(900)
        await self.page.evaluate(_HAND, None)
        await what.click()


async def record(demo: Demo, page: Page) -> Film:
    me = Visitor(page)
    await page.goto(demo.url)
    await page.locator(".face[aria-checked=true]").wait_for()
    for beside in (".hint-bar", ".welcome", ".members"):
        await page.locator(beside).first.evaluate("one => { one.style.display = 'none' }")
    around = await page.locator(".panes").bounding_box()
    assert around is not None
    await page.set_viewport_size({"width": WIDTH, "height": round(around["y"]) + HEIGHT})
    film = Film(page, around["y"], "ana asks")
    await film.take(900)
    box = me.chat.get_by_role("combobox")
    for end in (30, len(FIRST)):
        await box.fill(FIRST[:end])
        await page.keyboard.press("Escape")
        await film.take(500)
    await box.press("Enter")
    await me.opens_thread()
    await card(me, "Approve")
    await film.take(2200)

    await page.get_by_role("radio", name="ben").click()
    film.label = "ben approves"
    await film.clicks(button(me, "Approve"))
    await expect(me.thread.get_by_text("Needs 1 more approval").last).to_be_visible(timeout=60_000)
    await film.take(2200)

    await page.get_by_role("radio", name="chris").click()
    film.label = "chris approves"
    await film.clicks(button(me, "Approve"))
    await expect(me.thread.get_by_text("checkout 2.4.1 is on prod now.").last).to_be_visible(timeout=60_000)
    await expect(button(me, "Approve")).to_have_count(0)
    await page.wait_for_timeout(1000)  # the card and its last line
    film.label = "done"
    await me.thread.locator("li.message", has=page.locator("h3")).first.evaluate("one => one.scrollIntoView()")
    await film.take(5000)
    return film


def button(me: Visitor, name: str) -> Locator:
    """A button of the card; its whole name also says which call it is about."""
    return me.thread.get_by_role("button", name=re.compile(f"^{re.escape(name)}")).last


async def card(me: Visitor, offers: str) -> None:
    await expect(button(me, offers)).to_be_visible(timeout=60_000)
    await button(me, offers).scroll_into_view_if_needed()


# An animated PNG: the picture that is shown where nothing moves, then each one behind a chunk that says for how long


def animated(frames: Sequence[tuple[bytes, int]]) -> bytes:
    first = _chunks(frames[0][0])
    header = next(body for name, body in first if name == b"IHDR")
    width, height = struct.unpack(">II", header[:8])
    numbers = count()
    out = [_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    out.append(_chunk(b"IDAT", _packed(_chunks(frames[CARD][0]))))
    for picture, milliseconds in frames:
        chunks = _chunks(picture)
        assert (b"IHDR", header) in chunks, "all pictures have one size and one kind of colour"
        shown = struct.pack(">IIIIIHHBB", next(numbers), width, height, 0, 0, milliseconds, 1000, 0, 0)
        out.append(_chunk(b"fcTL", shown))
        out.append(_chunk(b"fdAT", struct.pack(">I", next(numbers)) + _packed(chunks)))
    return b"".join([*out, _chunk(b"IEND", b"")])


def _packed(chunks: Sequence[tuple[bytes, bytes]]) -> bytes:
    return zlib.compress(zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT")), 9)


def _chunks(picture: bytes) -> list[tuple[bytes, bytes]]:
    found, at = list[tuple[bytes, bytes]](), len(_SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        found.append((picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


async def main() -> None:
    async with running_demo(port=0) as demo, chromium() as browser:
        page = await browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            device_scale_factor=SCALE,
            color_scheme="light",
            reduced_motion="reduce",
        )
        film = await record(demo, page)
    PICTURE.write_bytes(animated(film.frames))
    print(f"{PICTURE}: {len(film.frames)} pictures, {PICTURE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    asyncio.run(main())
