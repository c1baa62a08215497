"""The content of a streamed message: text, tasks and blocks, in the order in which they came.

Slack's documentation says what chunks there are. It does not say what happens to a repeated `details` or `output` (they
are appended), nor to tasks that are open when a stream ends (they are shown as failed). Others who
stream to Slack have seen both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bot.sandbox.blockkit.blocks import complaints
from bot.sandbox.blockkit.limits import LONGEST_MARKDOWN
from bot.sandbox.blockkit.schema import Complaints, Shape, anything, array, choice, kinds, string
from bot.sandbox.refusals import ApiRefusal
from runtime.jsontypes import Json, JsonObject, as_text, objects

Display = Literal["timeline", "plan"]

LONGEST_FIELD = 256
MOST_TASKS = 50
OPEN = ("pending", "in_progress")
DEFAULT_TITLE = "Thinking…"

_field = string(LONGEST_FIELD)
_source = kinds({"url": Shape({"url": string(3000), "text": _field}, {"icon_url": string(3000)})})
_CHUNKS = kinds(
    {
        "markdown_text": Shape({"text": string(LONGEST_MARKDOWN, 0)}),
        "task_update": Shape(
            {"id": _field, "title": _field, "status": choice("pending", "in_progress", "complete", "error")},
            {"details": _field, "output": _field, "sources": array(_source, 50, 0)},
        ),
        "plan_update": Shape({"title": _field}),
        "blocks": Shape({"blocks": anything}),
    }
)


@dataclass(slots=True)
class Streamed:
    """`by_chunks` is set by the first call with content. All calls of a stream must use the same kind of argument."""

    display: Display = "timeline"
    title: str = ""
    by_chunks: bool | None = None
    parts: list[str | JsonObject | tuple[str]] = field(default_factory=list)  # text, a block, or a task's id
    tasks: dict[str, JsonObject] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    def grow(self, markdown: str | None, chunks: Json) -> None:
        """Adds the content of a call. If Slack refuses it, raises that refusal and changes nothing."""
        if markdown is not None and chunks is not None:
            raise ApiRefusal("cannot_provide_both_markdown_text_and_chunks")
        wrong = [] if chunks is None else list(_chunk_complaints(chunks))
        if wrong:
            raise ApiRefusal("invalid_chunks", messages=wrong)
        brought = objects(chunks)
        if markdown is not None or brought:
            if self.by_chunks is not None and self.by_chunks is (markdown is not None):
                raise ApiRefusal("streaming_mode_mismatch")
            self.by_chunks = markdown is None
        texts = [markdown or "", *(as_text(each.get("text")) for each in brought if each["type"] == "markdown_text")]
        if sum(map(len, texts)) > LONGEST_MARKDOWN:
            raise ApiRefusal("msg_too_long")
        new = {as_text(each.get("id")) for each in brought if each["type"] == "task_update"} - self.tasks.keys()
        if len(self.tasks) + len(new) > MOST_TASKS:
            raise ApiRefusal("invalid_chunks", messages=[f"[ERROR] no more than {MOST_TASKS} tasks allowed"])
        self._write(markdown or "")
        for each in brought:
            self._take(each)

    def end(self) -> None:
        """Ends the stream. Tasks that are still open count as failed."""
        for task in self.tasks.values():
            if task["status"] in OPEN:
                task["status"] = "error"

    def blocks(self) -> list[JsonObject]:
        drawn: list[JsonObject] = []
        for part in self.parts:
            if isinstance(part, str):
                drawn.append({"type": "markdown", "text": part})
            elif isinstance(part, dict):
                drawn.append(part)
            elif self.display == "timeline":
                drawn.append({"type": "task_card", **self.tasks[part[0]]})
            else:
                drawn.append({"type": "plan", "title": self.title or DEFAULT_TITLE, "tasks": [*self.tasks.values()]})
        return drawn

    def _write(self, text: str) -> None:
        if self.parts and isinstance(before := self.parts[-1], str):
            self.parts[-1] = before + text
        elif text:
            self.parts.append(text)

    def _take(self, brought: JsonObject) -> None:
        match brought["type"]:
            case "markdown_text":
                self._write(as_text(brought.get("text")))
            case "plan_update":
                self.title = as_text(brought.get("title"))
            case "blocks":
                self.parts += objects(brought.get("blocks"))
            case _:
                self._update(brought)

    def _update(self, brought: JsonObject) -> None:
        """Title and status take the place of those before; details, output and sources are added."""
        name = as_text(brought.get("id"))
        if name not in self.tasks and (self.display == "timeline" or not self.tasks):
            self.parts.append((name,))  # a plan keeps the place of its first task
        task = self.tasks.setdefault(name, {"task_id": name})
        task |= {"title": brought["title"], "status": brought["status"]}
        for key in ("details", "output"):
            if more := as_text(brought.get(key)):
                task[key] = _rich(_plain(task.get(key)) + more)
        if more_sources := objects(brought.get("sources")):
            task["sources"] = [*objects(task.get("sources")), *more_sources]


def _chunk_complaints(chunks: Json) -> Complaints:
    yield from array(_CHUNKS, 100, 0)(chunks, "/chunks")
    for index, each in enumerate(objects(chunks)):
        if each.get("type") == "blocks":
            yield from complaints(each.get("blocks"), "message", f"/chunks/{index}/blocks")


def _rich(text: str) -> JsonObject:
    section: JsonObject = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [section]}


def _plain(rich: Json) -> str:
    sections = objects(rich.get("elements")) if isinstance(rich, dict) else []
    return "".join(as_text(leaf.get("text")) for section in sections for leaf in objects(section.get("elements")))
