"""Draws a message or a view as text, as a person reads it: what golden files keep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from adk_confirm.sandbox.reading import JsonObject, as_object, as_text, label, objects

_TOKENS = (
    (re.compile(r"<!date\^[^|]*\|([^>]*)>"), r"{\1}"),
    (re.compile(r"<(?:@|#|!subteam\^)([A-Z0-9]+)>"), r"@\1"),
    (re.compile(r"<https://[^|>]*\|([^>]*)>"), r"<\1>"),
)
STYLES = {"bold": "**", "code": "`", "italic": "_", "strike": "~"}


def draw(payload: Mapping[str, JsonValue]) -> str:
    """A line for each line. `# title`, `| quote`, `│ box`, `(small print)`, `[Button]`, `[⋯ its entries]`; of an input
    its label, kind, what stands in it, and its hint. Last, what a notification reads out."""
    lines = [line.rstrip() for block in objects(payload["blocks"]) for line in _block(block)]
    if "title" in payload:
        ends = [f"[{label(payload[end])}]" for end in ("close", "submit") if payload.get(end)]
        lines = [f"== {label(payload['title'])} == {' '.join(ends)}", *lines]
    if payload.get("text"):
        lines += ["-- read out --", *as_text(payload["text"]).split("\n")]
    drawn = "\n".join(lines) + "\n"
    for token, shown in _TOKENS:
        drawn = token.sub(shown, drawn)
    return drawn


def _block(block: JsonObject) -> Iterator[str]:
    match block["type"]:
        case "header":
            yield f"# {label(block['text'])}"
        case "section":
            beside = as_object(block.get("accessory"))
            yield from f"{label(block['text'])}{'  ' + _control(beside) if beside else ''}".split("\n")
        case "context":
            yield from (f"({label(one)})" for one in objects(block["elements"]))
        case "actions":
            yield " ".join(map(_control, objects(block["elements"])))
        case "rich_text":
            for part in objects(block["elements"]):
                yield from _part(part)
        case "input":
            optional = " (optional)" if block.get("optional") else ""
            yield f"{label(block['label'])}{optional}: {_control(as_object(block['element']))}"
            yield from [f"    {label(block['hint'])}"] if block.get("hint") else []
        case "divider":
            yield "---"
        case kind:
            raise AssertionError(f"draw a {kind}")


def _part(part: JsonObject) -> Iterator[str]:
    if part["type"] == "rich_text_list":
        for item in objects(part["elements"]):
            first, *rest = _part(item)
            yield from (f"{'  ' * int(str(part.get('indent', 0)))}• {first}", *(f"  {line}" for line in rest))
        return
    before = {"rich_text_section": "", "rich_text_quote": "| ", "rich_text_preformatted": "│ "}[as_text(part["type"])]
    said = "".join(map(_span, objects(part["elements"]))).replace("****", "")  # bold beside bold
    yield from (f"{before}{line}" for line in said.split("\n"))


def _span(span: JsonObject) -> str:
    match span["type"]:
        case "text":
            mark = "".join(STYLES[style] for style in as_object(span.get("style")))
            said = as_text(span["text"])
            return f"{mark}{said}{mark[::-1]}" if said.strip() else said
        case "user" | "usergroup":
            return f"@{span.get('user_id') or span.get('usergroup_id')}"
        case "channel":
            return f"#{span['channel_id']}"
        case "date":
            return f"{{{span['fallback']}}}"
        case "link":
            return f"<{span['text']}>"
        case kind:
            raise AssertionError(f"draw a {kind}")


def _control(element: JsonObject) -> str:
    kind = as_text(element["type"])
    options = [label(one["text"]) for one in objects(element.get("options"))]
    if kind == "button":
        asks = as_object(element.get("confirm"))
        dialog = "".join(f" ({label(asks[part])})" for part in ("title", "text", "confirm") if asks)
        return f"[{label(element['text'])}{dialog}]"
    if kind == "overflow":
        return f"[⋯ {' | '.join(options)}]"
    chosen = objects(element.get("initial_options")) or [as_object(element.get("initial_option"))]
    ticked = [label(one["text"]) for one in chosen if one]
    if kind in ("radio_buttons", "checkboxes"):
        return " ".join(f"({'x' if one in ticked else ' '}) {one}" for one in options)
    lines = "multiline" if element.get("multiline") else ""
    now = ", ".join(ticked) or next((str(element[key]) for key in element if key.startswith("initial_")), "")
    facts = [lines] * bool(lines) + [f"‹{label(one)}›" for one in (element.get("placeholder"),) if one]
    facts += [f"of {' | '.join(options)}"] * bool(options)
    facts += [f"{name} {element[name]}" for name in ("min_value", "max_value", "max_length") if name in element]
    return f"<{', '.join([kind, *facts])}> {now}"
