"""A visitor at the page: what they do with mouse and keyboard, what they get to see. Everything waits by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from playwright.async_api import Locator, Page, expect

from adk_confirm.sandbox.people.people import Person


@dataclass(frozen=True)
class Visitor:
    page: Page

    # Where things are

    @property
    def _shown(self) -> Locator:
        """All but what is there for screen readers alone."""
        return self.page.locator(".banner, .away, .panes, .toasts, dialog[open]")

    @property
    def chat(self) -> Locator:
        return self.page.get_by_role("main")

    @property
    def thread(self) -> Locator:
        return self.page.get_by_role("complementary", name="Thread")

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("complementary", name="Behind the scenes")

    @property
    def dialog(self) -> Locator:
        return self.page.locator("dialog[open]").last

    @property
    def nav(self) -> Locator:
        return self.page.get_by_role("navigation", name="Channels")

    def message(self, words: str, within: Locator | None = None) -> Locator:
        return (within or self.page).locator("li.message", has_text=words).last

    def focused(self) -> Locator:
        return self.page.locator(":focus")

    # What they do

    async def becomes(self, person: Person) -> None:
        await self.page.get_by_role("radio", name=person.name).click()
        await expect(self.page.get_by_role("radio", name=person.name)).to_have_attribute("aria-checked", "true")

    async def says(self, text: str, *, in_thread: bool = False) -> None:
        box = (self.thread if in_thread else self.chat).get_by_role("combobox")
        await box.fill(text)
        if await box.get_attribute("aria-expanded") == "true":
            await self.page.keyboard.press("Escape")  # no suggestion; without one, Escape would close the thread
        await box.press("Enter")
        await expect(box).to_have_value("")

    async def opens_thread(self) -> None:
        """The latest one that has an answer."""
        await self.chat.locator(".reply-bar").last.click()
        await expect(self.thread).to_be_visible()

    async def goes_to(self, place: str) -> None:
        await self.nav.get_by_role("link", name=place).click()

    async def clicks(self, name: str, *, within: Locator | None = None) -> None:
        await (within or self.page).get_by_role("button", name=name, exact=True).last.click()

    async def picks(self, entry: str, *, of: Locator) -> None:
        """An entry of a message's menu."""
        await of.hover()
        await of.get_by_role("button", name="More actions").last.click()
        await self.page.get_by_role("menuitem", name=entry).click()

    async def presses(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    # What they see

    async def sees(self, words: str, *, within: Locator | None = None) -> None:
        await expect((within or self._shown).get_by_text(words).filter(visible=True).last).to_be_visible()

    async def does_not_see(self, words: str, *, within: Locator | None = None) -> None:
        await expect((within or self._shown).get_by_text(words).filter(visible=True)).to_have_count(0)


class Visits(Protocol):
    async def __call__(
        self, path: str = ..., *, width: int = ..., height: int = ..., dark: bool = ..., touch: bool = ...
    ) -> Visitor: ...
