"""A page with one sentence, for a browser that was redirected here."""

from __future__ import annotations

import html

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",  # the address of the page has a code in it
    "X-Content-Type-Options": "nosniff",
}


def page(title: str, text: str) -> str:
    heading, sentence = html.escape(title), html.escape(text)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{heading}</title>'
        '<meta name="viewport" content="width=device-width">'
        "<style>body{font:18px/1.5 system-ui;max-width:34em;margin:15vh auto;padding:0 1em}</style>"
        f"<h1>{heading}</h1><p>{sentence}</p></html>"
    )
