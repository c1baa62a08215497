"""What `adk-confirm check` looks at: Slack, the groups and channels that policies name, the store, the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.identity import slack_client
from bot.people import Approver, ApproverKind
from bot.sandbox.registration import SCOPES
from bot.settings import Settings
from bot.store import HISTORY
from runtime.database import Database
from runtime.errors import ConfirmError
from runtime.migrate import version
from runtime.target import load_object


@dataclass(frozen=True)
class Finding:
    what: str
    ok: bool
    said: str


async def check_all(settings: Settings) -> list[Finding]:
    """Everything is looked at, whatever else is wrong."""
    found = [finding async for finding in _store(settings)]
    found += _agent(settings)
    if settings.environment.bot_token is not None:
        found += [finding async for finding in _slack(settings)]
    return found


def _agent(settings: Settings) -> list[Finding]:
    agent = settings.agent
    if agent is None or agent.target is None:
        return []
    try:
        load_object(agent.target)
    except ConfirmError as error:
        return [Finding("agent", ok=False, said=str(error))]
    python = {entry for policy in settings.policies.entries for entry in policy.approvers + policy.escalate_to}
    found = [Finding("agent", ok=True, said=f"{agent.target} can be imported")]
    return found + [_importable(entry) for entry in sorted(python) if entry.kind is ApproverKind.PYTHON]


def _importable(entry: Approver) -> Finding:
    try:
        found = load_object(entry.value)
    except ConfirmError as error:
        return Finding(str(entry), ok=False, said=str(error))
    return Finding(str(entry), ok=callable(found), said="can be called" if callable(found) else "is no function")


async def _store(settings: Settings) -> AsyncIterator[Finding]:
    try:
        database = await Database.open(settings.store_url, read_only=True)
    except ConfirmError as error:
        yield Finding("store", ok=False, said=f"{error} (`serve` makes a new one)")
        return
    try:
        at = await database.read(version, HISTORY)
        fits = at in (None, HISTORY.head)
        said = f"{database.url}, schema {at or 'new'}"
        yield Finding("store", ok=fits, said=said if fits else f"{said}; this version knows {HISTORY.head}: upgrade it")
    except ConfirmError as error:
        yield Finding("store", ok=False, said=str(error))
    finally:
        await database.close()


async def _slack(settings: Settings) -> AsyncIterator[Finding]:
    client = slack_client(settings)
    try:
        answer = await client.auth_test()
    except (SlackApiError, OSError) as error:
        said = error.response["error"] if isinstance(error, SlackApiError) else str(error)
        yield Finding("Slack", ok=False, said=f"SLACK_BOT_TOKEN was not accepted ({said}): install the app again")
        return
    yield Finding("Slack", ok=True, said=f"workspace {answer['team']} ({answer['team_id']}), app {answer['user']}")
    granted = set(str(answer.headers.get("x-oauth-scopes", "")).replace(" ", "").split(",")) - {""}
    missing = sorted(SCOPES - granted)
    if granted and missing:
        yield Finding("scopes", ok=False, said=f"missing: {', '.join(missing)}; add them, and install the app again")
    elif granted:
        yield Finding("scopes", ok=True, said="all there")
    for entry in _named(settings, ApproverKind.GROUP):
        yield await _asked(str(entry), partial(client.usergroups_users_list, usergroup=entry.value), _members)
    for entry in _named(settings, ApproverKind.EMAIL):
        yield await _asked(str(entry), partial(client.users_lookupByEmail, email=entry.value), _known)
    for channel in sorted({policy.channel for policy in settings.policies.entries if policy.channel}):
        yield await _asked(channel, partial(client.conversations_info, channel=channel), _joined)


def _named(settings: Settings, kind: ApproverKind) -> Iterable[Approver]:
    entries = settings.policies.entries
    named = {entry for policy in entries for entry in (*policy.approvers, *policy.escalate_to, *policy.barred)}
    return sorted(entry for entry in named if entry.kind is kind)


async def _asked(
    what: str, ask: Callable[[], Awaitable[AsyncSlackResponse]], judge: Callable[[AsyncSlackResponse], tuple[bool, str]]
) -> Finding:
    try:
        answer = await ask()
    except SlackApiError as error:
        code = str(error.response["error"])
        return Finding(what, ok=False, said=_MENDING.get(code, f"Slack says {code}"))
    except OSError as error:
        return Finding(what, ok=False, said=f"Slack could not be asked: {error}")
    ok, said = judge(answer)
    return Finding(what, ok=ok, said=said)


_MENDING = {
    "no_such_subteam": "there is no such user group, or it is switched off: take the id from the group's own page",
    "users_not_found": "no account has this address: correct it in the policy",
    "channel_not_found": "the app can't see this channel: invite it with /invite",
    "missing_scope": "a scope is missing: add it and install the app again",
}


def _members(answer: AsyncSlackResponse) -> tuple[bool, str]:
    count = len(answer.get("users") or [])
    return (True, f"{count} members") if count else (False, "nobody is in this group: nobody could decide")


def _known(answer: AsyncSlackResponse) -> tuple[bool, str]:
    return True, f"is {(answer.get('user') or {}).get('id')}"


def _joined(answer: AsyncSlackResponse) -> tuple[bool, str]:
    joined = bool((answer.get("channel") or {}).get("is_member"))
    return (True, "the app is in it") if joined else (False, "the app is not in this channel: invite it with /invite")
