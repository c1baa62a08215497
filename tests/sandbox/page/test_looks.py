"""How the page draws things: every kind of block, supplied texts as text, light and dark, wide and narrow."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import expect

from adk_confirm.blocks.card import heading
from adk_confirm.runtime.jsontypes import JsonObject, objects
from tests.blocks import samples
from tests.blocks.test_golden import SENT, surface
from tests.sandbox.page.conftest import Scene
from tests.sandbox.page.visitor import Visitor, Visits
from tests.sandbox.small_app import Body, drawn
from tests.support.audit import audit

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MARKUP = (
    "*bold* _slanted_ ~gone~ `code` 2*3*4 snake_case_name &lt;b&gt; &amp;amp; <https://example.com|a link> <@U0DANA> "
    "<@U0NOBODY> <#C0DEPLOYS> <!here> <!subteam^S0ONCALL> <!date^1795262400^{date_num} {time_secs}|then> :tada: "
    "<javascript:alert(1)|no link>\n&gt; a quote\n&gt; of two lines\n```a *box* &amp; more```\nafter"
)
MARKDOWN = """## State

The **checkout** is *well*, see [there](https://example.com/a_b) and https://example.com/c.

1. one
2. two
   - inside `two`

> said

| name | pods |
| --- | --- |
| web | **3** |

```python
if a < b: "<i>"
```

<script>alert(1)</script> ![a picture](https://example.com/p.png) [bad](javascript:alert(1)) snake_case_name"""


async def test_markup(scene: Scene, visits: Visits) -> None:
    await scene.app.client.chat_postMessage(channel=scene.deploys.id, text=MARKUP)
    me = await visits()
    message = me.message("bold")
    for selector, words in (
        ("strong:not(.author)", "bold"), ("em", "slanted"), ("s", "gone"), ("code", "code"),
        ("blockquote", "a quote\nof two lines"), ("pre", "a *box* & more"), (".mention-me >> nth=0", "@dana"),
        (".mention >> nth=1", "@U0NOBODY"), ("a.mention", "#deploys"), (".mention-me >> nth=1", "@here"),
        (".mention >> nth=4", "@oncall"), ("time:not(.stamp)", "2026-11-21 13:00:00"),
    ):  # fmt: skip
        await expect(message.locator(selector)).to_have_text(words, use_inner_text=True)
    await expect(message.get_by_role("link", name="a link")).to_have_attribute("rel", "noopener noreferrer")
    await expect(message.get_by_role("link", name="no link")).to_have_count(0)
    await expect(message).to_contain_text("2*3*4 snake_case_name <b> &amp;")
    await expect(message).to_contain_text("🎉")


async def test_markdown(scene: Scene, visits: Visits) -> None:
    await scene.app.client.chat_postMessage(channel=scene.deploys.id, markdown_text=MARKDOWN)
    me = await visits()
    message = me.message("checkout")
    for selector, words in (
        ("h4", "State"), (".markdown > p strong", "checkout"), ("em", "well"), ("ol > li >> nth=0", "one"),
        ("ol ul li code", "two"), ("blockquote", "said"), ("th >> nth=1", "pods"), ("td strong", "3"),
        ("pre", 'if a < b: "<i>"'),
    ):  # fmt: skip
        await expect(message.locator(selector)).to_have_text(words)
    links = await message.locator(".markdown a").evaluate_all("nodes => nodes.map(node => node.getAttribute('href'))")
    assert links == ["https://example.com/a_b", "https://example.com/c", "https://example.com/p.png"]
    await expect(message).to_contain_text("<script>alert(1)</script>")
    await expect(message).to_contain_text("snake_case_name")
    assert await message.locator("script, img, iframe").count() == 0


async def test_what_was_supplied_stays_text(scene: Scene, visits: Visits) -> None:
    """The card names two people and a group by itself; nothing else in it is more than letters."""
    await scene.app.client.chat_postMessage(channel=scene.deploys.id, **drawn(samples.HOSTILE))
    me = await visits()
    message = me.message(heading(samples.HOSTILE))
    await expect(message.locator("h3")).to_have_text(heading(samples.HOSTILE))
    assert await message.locator(".mention").all_inner_texts() == ["@oncall", "@lea", "@dana"]
    assert await message.locator(".content a, img, script, em, s").count() == 0
    await expect(message.locator("blockquote")).to_contain_text("Approved by <@U0LEAD> <!here>")
    await expect(message.locator("code", has_text="evil")).to_have_text(
        "<!channel> @here <@U0LEAD> #general https://evil.example"
    )
    await expect(message.locator("pre").first).to_have_text("5\namount 5000")


LINES = """(message) => {
  const count = (root, selector) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const middles = [];
    while (walker.nextNode()) {
      const { data, parentElement } = walker.currentNode;
      if (!data.trim() || !parentElement.checkVisibility({ contentVisibilityAuto: true })) continue;
      if (selector && !parentElement.closest(selector)) continue;
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      for (const box of range.getClientRects()) if (box.width) middles.push((box.top + box.bottom) / 2);
    }
    middles.sort((one, other) => one - other);
    return middles.filter((each, at) => !at || each - middles[at - 1] > 8).length;
  };
  const blocks = [...message.querySelectorAll(".content > .block:not(.block-actions)")];
  return blocks.map((each) => [count(each), count(each, "blockquote, pre")]);
}"""
"""Of each block but the buttons: its lines on the screen, and how many of them are quotes."""
MOST_LINES, OUR_LINES = 12, 7


def at_noon(payload: JsonObject, now: float) -> Body:
    """The card as if it were about noon in the samples."""
    moved = re.sub(r"1795\d{6}", lambda at: str(int(now) + int(at[0]) - samples.NOON), json.dumps(payload))
    return {name: part for name, part in json.loads(moved).items() if name != "metadata"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_every_face_of_a_card_is_drawn_and_fits_a_phone(scene: Scene, visits: Visits, dark: bool) -> None:
    """At most twelve lines, unless the agent's own values take more than our own words leave them, and one row of
    buttons."""
    cards = {name: payload for name, payload in SENT.items() if name.startswith("card_")}
    for payload in cards.values():
        body = at_noon(payload, scene.slack.clock.now())
        await scene.app.client.chat_postMessage(channel=scene.deploys.id, **body)
    me = await visits(width=390, height=844, touch=True, dark=dark)
    drawn_cards = me.chat.locator("li.message")
    await expect(drawn_cards).to_have_count(len(cards))
    assert await me.page.locator(".unknown").all_inner_texts() == []
    assert await audit(me.page) == []
    for at, (name, payload) in enumerate(cards.items()):
        blocks = [one for one in objects(payload["blocks"]) if one["type"] != "actions"]
        counted: list[tuple[int, int]] = await drawn_cards.nth(at).evaluate(LINES)
        lines = values = 0
        for block, (every, quoted) in zip(blocks, counted, strict=True):
            lines += every
            part = str(block["block_id"]).partition(".")[0]
            values += every if part in ("title", "what") else max(every - 3, 0) if part == "facts" else quoted
        assert 0 < lines <= max(MOST_LINES, values + OUR_LINES), f"{name} takes {lines} lines"
    rows: list[int] = await drawn_cards.locator(".block-actions").evaluate_all("rows => rows.map(x => x.offsetHeight)")
    assert max(rows) < 50


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_every_window_fits_a_phone_and_can_be_read(scene: Scene, visits: Visits, dark: bool) -> None:
    """From its beginning, with an error at each of its fields."""
    me, views = await visits(width=390, height=844, touch=True, dark=dark), scene.slack.workspace.views
    for name, payload in SENT.items():
        if surface(name) != "modal":
            continue
        view = views.open(scene.dana.user.team_id, scene.dana.id, at_noon(payload, scene.slack.clock.now()))
        await expect(me.dialog.locator("h3, .block").first).to_be_visible()
        texts = await me.dialog.locator("textarea").evaluate_all("texts => texts.map(text => text.scrollTop)")
        assert not any(texts), f"{name} shows the end of a text first"
        fields = [str(one["block_id"]) for one in objects(payload["blocks"]) if one["type"] == "input"]
        views.show_errors(view, dict.fromkeys(fields, "Please complete this required field."))
        await expect(me.dialog.locator(".error")).to_have_count(len(fields))
        assert await me.dialog.locator(".unknown").count() == 0
        assert await audit(me.page) == [], name
        body = me.dialog.locator(".dialog-body")
        assert await body.evaluate("body => body.scrollWidth <= body.clientWidth"), f"{name} is wider than its window"
        views.close(view)
        await expect(me.dialog).to_have_count(0)


async def test_a_new_message_is_announced_by_its_text(scene: Scene, visits: Visits) -> None:
    me = await visits()
    news = me.page.get_by_role("log")
    await scene.app.asks(scene.deploys.id, "")
    await expect(news).to_contain_text(f"adk-confirm: {heading(samples.EDITABLE)}")
    await expect(news).to_contain_text("Asked by @dana")
    await scene.app.redraws(samples.DONE)
    await expect(news).to_contain_text("adk-confirm, changed: ✅ Done: Deploy")
    await scene.olu.says("elsewhere", scene.general)
    await scene.olu.says("and here", scene.deploys)
    await expect(news).to_contain_text("olu: and here")
    await expect(news).not_to_contain_text("elsewhere")


async def _walk(me: Visitor) -> None:
    """Through every kind of surface, looking at each."""
    assert await audit(me.page) == []
    await me.says("@adk-confirm deploy checkout 2.14.0 to prod")
    await me.opens_thread()
    await me.sees("to prod?", within=me.thread)
    assert await audit(me.page) == []
    await me.picks("Approval history", of=me.message("to prod?", me.thread))
    await me.sees("Ran in 42 s.", within=me.dialog)
    assert await audit(me.page) == []
    await me.presses("Escape")
    await me.clicks("Deny…: deploy", within=me.thread)
    await me.clicks("Deny")
    await me.sees("Please complete this required field.")
    assert await audit(me.page) == []
    await me.presses("Escape")
    await me.clicks("More options", within=me.thread)
    assert await audit(me.page) == []
    await me.presses("Escape")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_everything_has_a_name_and_can_be_read(scene: Scene, visits: Visits, dark: bool) -> None:
    me = await visits(dark=dark)
    await me.chat.get_by_role("combobox").fill("@")
    await expect(me.page.get_by_role("option").first).to_be_visible()
    assert await audit(me.page) == []
    await _walk(me)
    await me.goes_to("adk-confirm")
    await me.sees("Waiting for you (7)")
    assert await audit(me.page) == []
    await me.goes_to("deploys")
    await me.says("/approvals")
    await me.sees("Waiting in this channel")
    await me.chat.get_by_role("combobox").fill("/nothing")
    await me.presses("Enter")
    await me.sees("not a valid command")
    await me.panel.locator("summary").last.click()
    await me.sees('"command"', within=me.panel)
    assert await audit(me.page) == []
