"""What a person reads: messages and views as plain text, with mentions, links and dates as Slack shows them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from adk_confirm.sandbox.blockkit.elements import element_labels, every_option, interactive
from adk_confirm.sandbox.people.state import SLOTS
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, label, objects
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.records import Message, User

_SPECIAL = re.compile(r"<([^<>\n]+)>")
_DATES: dict[str, str] = {
    "date_num": "%Y-%m-%d", "date": "%B %-d, %Y", "date_short": "%b %-d, %Y", "date_long": "%A, %B %-d, %Y",
    "date_pretty": "%B %-d, %Y", "date_short_pretty": "%b %-d, %Y", "date_long_pretty": "%A, %B %-d, %Y",
    "time": "%H:%M", "time_secs": "%H:%M:%S",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads as this user: names come from the directory, times are in the user's time zone."""

    directory: Directory
    user: User

    def message(self, message: Message) -> str:
        body = self.blocks(message.blocks) if message.blocks else self.mrkdwn(message.text)
        files = "\n".join(f"[file: {as_text(each.get('title') or each.get('name'))}]" for each in message.files)
        return "\n".join(part for part in (body, files) if part)

    def blocks(self, blocks: list[JsonObject], shown: Callable[[JsonObject, JsonObject], str] | None = None) -> str:
        return "\n".join(line for block in blocks for line in self._block(block, shown) if line)

    def mrkdwn(self, text: str) -> str:
        return html.unescape(_SPECIAL.sub(lambda found: self._special(found[1]), text))

    def text(self, value: Json) -> str:
        """A text object. Only mrkdwn has mentions and links."""
        text_object = as_object(value)
        return self.mrkdwn(label(text_object)) if text_object.get("type") == "mrkdwn" else label(text_object)

    def _special(self, inner: str) -> str:
        target, _, name = inner.partition("|")
        if target.startswith("!date^"):
            return self._date(target, name)
        if target.startswith("!subteam^"):
            group = self.directory.groups.get(target.removeprefix("!subteam^"))
            return f"@{group.handle if group else name}"
        if target.startswith("!"):
            return f"@{target[1:]}"
        if target.startswith("@"):
            user = self.directory.users.get(target[1:])
            return f"@{user.name if user else target[1:]}"
        if target.startswith("#"):
            channel = self.directory.channels.get(target[1:])
            return f"#{channel.name if channel else target[1:]}"
        return f"{name} ({target})" if name else target

    def _date(self, target: str, fallback: str) -> str:
        parts = target.split("^")
        if len(parts) < 3 or not parts[1].isdigit():
            return fallback
        moment = datetime.fromtimestamp(int(parts[1]), ZoneInfo(self.user.tz))
        return re.sub(r"\{(\w+)\}", lambda found: moment.strftime(_DATES.get(found[1], "%Y-%m-%d %H:%M")), parts[2])

    def _block(self, block: JsonObject, shown: Callable[[JsonObject, JsonObject], str] | None) -> Iterator[str]:
        kind = as_text(block.get("type"))
        if kind == "markdown":
            yield as_text(block.get("text"))
        elif kind == "rich_text":
            yield "\n".join(self._rich(each) for each in objects(block.get("elements")))
        elif kind == "input":
            yield self._input(block, shown)
        elif kind == "context":
            yield " · ".join(self.text(each) for each in objects(block.get("elements")))
        else:
            yield from self._texts_of(block)

    def _texts_of(self, block: JsonObject) -> Iterator[str]:
        yield self.text(block.get("text"))
        for part in objects(block.get("fields")):
            yield self.text(part)
        yield " ".join(f"[{name}]" for each in interactive(block) for name in element_labels(each))

    def _input(self, block: JsonObject, shown: Callable[[JsonObject, JsonObject], str] | None) -> str:
        element = as_object(block.get("element"))
        value = shown(block, element) if shown else ""
        hint = label(block.get("hint"))
        options = " / ".join(label(option.get("text")) for option in every_option(element))
        choice = f" ({options})" if options else ""
        return f"{label(block.get('label'))}: {value}{choice}" + (f"\n  {hint}" if hint else "")

    def _rich(self, element: JsonObject) -> str:
        kind = as_text(element.get("type"))
        if "elements" in element:
            inner = objects(element.get("elements"))
            return ("\n" if kind == "rich_text_list" else "").join(self._rich(each) for each in inner)
        if kind == "text":  # nearly all are
            return as_text(element.get("text"))
        when = f"{element.get('timestamp')}^{as_text(element.get('format'))}|{as_text(element.get('fallback'))}"
        special = {
            "date": f"!date^{when}",
            "user": f"@{as_text(element.get('user_id'))}", "channel": f"#{as_text(element.get('channel_id'))}",
            "usergroup": f"!subteam^{as_text(element.get('usergroup_id'))}",
            "broadcast": f"!{as_text(element.get('range'))}",
        }  # fmt: skip
        if kind in special:
            return self._special(special[kind])
        if kind == "link":
            return as_text(element.get("text")) or as_text(element.get("url"))
        return f":{as_text(element.get('name'))}:" if kind == "emoji" else as_text(element.get("text"))


def entered_text(entered: JsonObject, tz: str) -> str:
    """What a field shows: typed text, the labels of chosen options, a date and time in this time zone."""
    slot = SLOTS.get(as_text(entered.get("type")))
    value = entered.get(slot.key) if slot else None
    if isinstance(value, list):
        return ", ".join(label(each.get("text")) for each in objects(value)) or ", ".join(map(str, value))
    if isinstance(value, dict):
        return label(value.get("text"))
    if isinstance(value, int):
        return datetime.fromtimestamp(value, ZoneInfo(tz)).strftime("%Y-%m-%d %H:%M")
    return "" if value is None else str(value)
