"""The errors of a call to Slack, one class for each thing that a caller can do about them. Pure.

Later          nothing happened, or it does no harm: try again after `after` seconds
NoAnswer       the same, but Slack may also still do it
Unsure         it may have happened: look before you repeat it
Gone           the channel or the person does not exist for this app, or not any more
RefusedBySlack what was sent can't be taken: a bug in this app, or a missing scope
Revoked        the token is no longer valid: the app was removed, or the token was revoked
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adk_confirm.runtime.errors import ConfirmError, why_unreached
from adk_confirm.runtime.store.jobs import PutOff

PATIENT: list[AsyncRetryHandler] = [AsyncRateLimitErrorRetryHandler(max_retry_count=3)]
"""For the clients of commands: they wait as long as Slack says. The service has limits of its own."""


UNANSWERED = (SlackClientError, aiohttp.ClientError, OSError, AttributeError)
"""What the SDK raises where a call has no good answer. `AttributeError`: a 200 with plain text, such as a proxy's."""


class SlackTrouble(ConfirmError):
    """`code` is Slack's error code, if there was one; `method` is what was called."""

    def __init__(self, method: str, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.method, self.code = method, code


LIMITED = frozenset({"ratelimited", "rate_limited"})


class Later(SlackTrouble, PutOff):
    """Slack takes no such call now. `limited`: it only is not our turn yet, because of our own limit or Slack's 429.
    Otherwise Slack is `failing`: repeating the call again and again would use up the limits of calls that work."""

    def __init__(self, method: str, after: float, code: str = "ratelimited") -> None:
        super().__init__(method, code, f"Slack accepts no {method} now ({code}). Trying again in {after:.0f} s.")
        self.after, self.limited = after, code in LIMITED
        self.failing = not self.limited


class NoAnswer(Later):
    """No answer came. Slack may still carry out the call, even after calls that are sent from now on."""


class Unsure(SlackTrouble):
    def __init__(self, method: str, code: str) -> None:
        super().__init__(method, code, f"Slack's answer to {method} was lost ({code}): it may have been done.")


class Unfound(Unsure, PutOff):
    """No answer came, for a message that can be looked for in Slack: its job is tried again as while Slack fails."""

    after, failing = 1.0, True


class Gone(SlackTrouble):
    def __init__(self, method: str, code: str) -> None:
        super().__init__(method, code, _GONE.get(code, f"Slack can't do {method} there: {code}."))


class RefusedBySlack(SlackTrouble):
    """`places`: JSON pointers to what Slack refuses, if it names any."""

    def __init__(self, method: str, code: str, detail: str = "", places: Sequence[str] = ()) -> None:
        sentence = _REFUSED.get(code, "Slack does not take {method}: {code}{at}.")
        super().__init__(method, code, sentence.format(method=method, code=code, at=f" ({detail})" if detail else ""))
        self.places = tuple(places)


class Revoked(SlackTrouble):
    def __init__(self, method: str, code: str) -> None:
        sentence = "SLACK_BOT_TOKEN is not set, so Slack can't be asked. Set it as the service has it."
        if code != "not_authed":
            sentence = f"Slack does not accept the app's token ({code}). Install the app again and take its new token."
        super().__init__(method, code, sentence)


_GONE = {
    "channel_not_found": "The app can't see this channel. Invite it there with /invite.",
    "not_in_channel": "The app is not in this channel. Invite it there with /invite.",
    "is_archived": "This channel is archived. Unarchive it, or name another one in the policy.",
    "message_not_found": "The message is not there any more: somebody deleted it.",
    "thread_not_found": "The thread is gone: somebody deleted its first message.",
    "cant_update_message": "The message can't be changed: it is not this app's.",
    "cant_delete_message": "The message can't be deleted: it is not this app's.",
    "edit_window_closed": "The workspace does not let this message be changed any more.",
    "user_not_found": "Slack knows nobody of this id.",
    "users_not_found": "Slack knows nobody of this address.",
    "user_not_visible": "This person can't be seen from here.",
    "user_disabled": "This account is deactivated.",
    "user_not_in_channel": "This person is not in the channel.",
    "cannot_dm_bot": "A bot can't be written to.",
    "no_such_subteam": "Slack knows no user group of this id that is in use.",
    "not_found": "The window was closed.",
    "view_not_found": "The window was closed.",
    "expired_trigger_id": "It took too long to open the window. Press the button again.",
    "exchanged_trigger_id": "This click has opened a window already. Press the button again.",
    "invalid_trigger_id": "This click can't open a window. Press the button again.",
    "trigger_expired": "It took too long to open the window. Press the button again.",
    "trigger_exchanged": "This click has opened a window already. Press the button again.",
    "push_limit_reached": "Too many windows are open. Close one and press the button again.",
    "not_enabled": "The app's Home tab is switched off. Turn it on in the app's settings.",
    "messages_tab_disabled": "The app's Messages tab is switched off. Turn it on in the app's settings.",
    "restricted_action": "A setting of the workspace does not let the app write here.",
    "restricted_action_read_only_channel": "Only some may write in this channel, and the app is not among them.",
    "restricted_action_thread_only_channel": "This channel takes replies only.",
    "restricted_action_thread_locked": "This thread is locked.",
    "restricted_action_non_threadable_channel": "This channel has no threads.",
    "file_not_found": "The file is not there any more.",
}

_REVOKED = frozenset(
    {
        "account_inactive", "access_denied", "app_access_denied", "ekm_access_denied", "enterprise_is_restricted",
        "invalid_auth", "no_permission", "not_authed", "org_login_required", "team_access_not_granted",
        "token_expired", "token_revoked", "two_factor_setup_required",
    }
)  # fmt: skip

_LATER = {
    "ratelimited": 30.0,
    "rate_limited": 30.0,
    "message_limit_exceeded": 60.0,
    "team_added_to_org": 60.0,
    "service_unavailable": 10.0,
    "accesslimited": 60.0,
}

_UNSURE = frozenset({"fatal_error", "internal_error", "request_timeout"})
"""Slack's own failures, after which part of the call may have happened."""

_REFUSED = {
    "missing_scope": "The app lacks a scope for {method}{at}. Add it and install the app again.",
    "invalid_blocks": "Slack does not take the blocks of this message{at}: a bug of this app.",
}

OVERSIZE_OR_ODD = frozenset(
    {
        "invalid_arguments", "invalid_blocks", "invalid_blocks_format", "invalid_metadata_format",
        "invalid_metadata_schema", "metadata_must_be_sent_from_app", "metadata_too_large", "msg_blocks_too_long",
        "msg_too_long", "block_mismatch",
    }
)  # fmt: skip
"""The errors for a message that Slack refuses as it is, but would accept as plain text."""


def code_of(error: SlackApiError) -> str:
    """Slack's code. It is empty if the answer is not Slack's JSON, such as the page of a proxy."""
    response = error.response
    data = response.data if isinstance(response, AsyncSlackResponse) and isinstance(response.data, dict) else {}
    return str(data.get("error") or "")


def why_slack_is_unreached(error: BaseException) -> str:
    """Why nothing was heard from Slack, for an operator."""
    if isinstance(error, SlackApiError):
        return f"the answer is not Slack's (status {_status_and_headers(error.response)[0]})"
    return "the answer is not Slack's" if isinstance(error, AttributeError) else why_unreached(error)


def trouble_from(method: str, error: Exception, *, repeatable: bool) -> SlackTrouble:
    """The error for an exception of an SDK call. `repeatable`: repeating the call does no harm."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Later(method, 2.0, "could not connect")
    if not isinstance(error, SlackApiError):
        code = type(error).__name__
        return NoAnswer(method, 1.0, code) if repeatable else Unsure(method, code)
    response = error.response
    status, headers = _status_and_headers(response)
    data = response.data if isinstance(response, AsyncSlackResponse) and isinstance(response.data, dict) else {}
    code = code_of(error)
    if status == 429 or code in _LATER:
        return Later(method, _retry_after(headers, _LATER.get(code, 30.0)), code or "ratelimited")
    if status >= 500 or not code or code in _UNSURE:
        code = code or f"status {status}"
        again = NoAnswer if status == HTTPStatus.GATEWAY_TIMEOUT else Later  # a proxy gave up, Slack may not have
        return again(method, 1.0, code) if repeatable else Unsure(method, code)
    if code in _REVOKED:
        return Revoked(method, code)
    if code in _GONE:
        return Gone(method, code)
    places = _pointers(data)
    return RefusedBySlack(method, code, str(data.get("needed") or "") or ", ".join(places), places)


def _status_and_headers(response: object) -> tuple[int, dict[str, str]]:
    """Reads them from the SDK's own response, or from aiohttp's if the body was not JSON."""
    headers: Mapping[str, object] = {}
    status = 0
    if isinstance(response, AsyncSlackResponse):
        status, headers = response.status_code, response.headers
    elif isinstance(response, aiohttp.ClientResponse):
        status, headers = response.status, response.headers
    return status, {str(name).lower(): str(value) for name, value in headers.items()}


_LONGEST_BY_DATE = 3600.0
"""The longest pause from a date, which comes from a proxy whose clock may be wrong."""


def _retry_after(headers: Mapping[str, str], default: float) -> float:
    """Slack gives seconds. A proxy may give a date, which is compared with the date of its answer."""
    given = headers.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", given):
        return max(float(given), 1.0)  # without any pause, all calls of a minute would go out at once
    at, now = _date(given), _date(headers.get("date", ""))
    if at is None:
        return default
    return min(max((at - (now or datetime.now(UTC))).total_seconds(), 1.0), _LONGEST_BY_DATE)


def _date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


_POINTER = re.compile(r"\[json-pointer:([^\]]{1,200})\]")


def _pointers(data: dict[str, object]) -> list[str]:
    """The places that Slack's errors name. The sentences may quote what was sent, so they are not logged."""
    metadata = data.get("response_metadata")
    messages = metadata.get("messages") if isinstance(metadata, dict) else None
    found = [place for text in messages or () if isinstance(text, str) for place in _POINTER.findall(text)]
    return found[:5]
