"""Finds what an accessibility checker would report about a page: names of controls and contrast of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.async_api import Page

_CONTROLS = {
    "button", "link", "textbox", "combobox", "checkbox", "radio", "menuitem", "menuitemradio", "option", "tab",
    "dialog", "alertdialog", "img", "listbox", "menu", "radiogroup", "region", "complementary", "navigation", "Date",
    "DateTime", "InputTime", "DisclosureTriangle",
}  # fmt: skip

_LOOK = Path(__file__).with_suffix(".js").read_text()


async def audit(page: Page) -> list[str]:
    """Everything that is wrong. The names are the ones that Chromium gives to a screen reader."""
    wrong: list[str] = await page.evaluate(_LOOK)
    session = await page.context.new_cdp_session(page)
    tree = await session.send("Accessibility.getFullAXTree")
    await session.detach()
    for node in tree["nodes"]:
        role = _value(node, "role")
        if not node["ignored"] and role in _CONTROLS and not _value(node, "name").strip():
            wrong.append(f"a {role} has no name: {node.get('properties', [])}")
    return wrong


def _value(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", ""))
