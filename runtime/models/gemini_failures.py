"""Explains an error or a broken connection of Gemini. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.models.model import ModelFailure

_LONGEST_MESSAGE = 400
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s?")


def explain_refusal(code: int, details: object, headers: Mapping[str, str], model: str) -> ModelFailure:
    """Explains an HTTP error. `details` is its body, as far as it could be read."""
    body = _error_in(details)
    status = str(body.get("status") or f"HTTP_{code}").upper().replace(" ", "_")
    message = " ".join(str(body.get("message") or "no reason given").split())[:_LONGEST_MESSAGE].rstrip(".")
    if code in (408, 429) or code >= 500:
        return ModelFailure(status, _overload_message(code, message, model, _wait_asked_for(headers, body)))
    if code == 401 or _reason(body) == "API_KEY_INVALID" or "api key not valid" in message.lower():
        return ModelFailure(
            "API_KEY_INVALID",
            f"Gemini does not accept the API key: check GOOGLE_API_KEY or GEMINI_API_KEY ({message}).",
        )
    if code == 403:
        return ModelFailure(status, f"The API key may not use {model}: {message}.")
    if code == 404:
        return ModelFailure(status, f"Gemini has no model {model!r}: check its name ({message}).")
    return ModelFailure(status, f"Gemini does not take the request to {model}: {message}.")


def explain_break(error: Exception, model: str, *, begun: bool) -> ModelFailure:
    if begun:
        return ModelFailure("INTERRUPTED", f"The answer of {model} broke off half-way: ask again.")
    return ModelFailure("UNREACHABLE", f"The server of {model} cannot be reached: {_shorten(error)}. Try again later.")


def explain_time_out(model: str, patience: float) -> ModelFailure:
    return ModelFailure("MODEL_TIMEOUT", f"{model} did not answer within {patience:g} s: try again.")


def explain_unreadable(model: str) -> ModelFailure:
    return ModelFailure("BAD_RESPONSE", f"The server of {model} sent something that is not an answer from Gemini.")


def no_key() -> ModelFailure:
    return ModelFailure("API_KEY_MISSING", "There is no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY.")


def bad_config(problem: str) -> ModelFailure:
    return ModelFailure("BAD_CONFIG", f"generate_content_config does not fit Gemini: {problem}.")


def bad_content(where: str, problem: str) -> ModelFailure:
    return ModelFailure("BAD_CONTENT", f"A message of this session is not one that Gemini takes: {where}: {problem}.")


def _overload_message(code: int, message: str, model: str, wait: float) -> str:
    said = "allows no more requests for now" if code == 429 else "is out of order for now"
    rest = f" It asks to wait {wait:g} s." if wait else ""
    return f"The server of {model} {said} ({code}: {message}).{rest} Try again later."


def _error_in(details: object) -> Mapping[str, object]:
    """Google's error object: alone, under `error`, or in a list of one."""
    if isinstance(details, list) and len(details) == 1:
        details = details[0]
    if isinstance(details, Mapping) and isinstance(details.get("error"), Mapping):
        details = details["error"]
    return details if isinstance(details, Mapping) else {}


def _details(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = body.get("details")
    return [detail for detail in listed if isinstance(detail, Mapping)] if isinstance(listed, list) else []


def _reason(body: Mapping[str, object]) -> object:
    return next((detail["reason"] for detail in _details(body) if "reason" in detail), None)


def _wait_asked_for(headers: Mapping[str, str], body: Mapping[str, object]) -> float:
    """`Retry-After` in seconds, or Google's own `RetryInfo`, whichever is longer. Dates are ignored."""
    asked = [headers.get("Retry-After", ""), *(str(detail.get("retryDelay", "")) for detail in _details(body))]
    return max((float(found[1]) for text in asked if (found := _SECONDS.fullmatch(text.strip()))), default=0.0)


def _shorten(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:_LONGEST_MESSAGE].rstrip(".") or type(error).__name__
