"""Checks Slack for `adk-confirm check`: whether the token works and has all scopes, and whether people and channels
exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adk_confirm.blocks.card import card
from adk_confirm.blocks.form import Form, deny_form
from adk_confirm.blocks.home import HomeView, home_tab
from adk_confirm.bot.config.settings import Environment, Settings
from adk_confirm.bot.confirmation.decision import open_confirmation
from adk_confirm.bot.confirmation.model import AskedCall, OutcomeKind, SessionKey, State
from adk_confirm.bot.confirmation.shown import Shown
from adk_confirm.bot.ops.findings import Finding, fine, fix, note
from adk_confirm.bot.policy.approvers import ApproverKind, Person
from adk_confirm.bot.policy.model import Policy
from adk_confirm.bot.slack.errors import PATIENT, why_unreached
from adk_confirm.bot.slack.identity import scopes_for
from adk_confirm.bot.slack.names import handles, person_name
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text

UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


Judge = Callable[[AsyncSlackResponse], tuple[bool, str]]


async def check_app_token(environment: Environment) -> Finding:
    """Asks for a Socket Mode address. Nothing connects to it, and it expires."""
    assert environment.app_token is not None
    client = AsyncWebClient(base_url=environment.api_url, retry_handlers=PATIENT)
    token = environment.app_token.get_secret_value()
    return await _check(
        "SLACK_APP_TOKEN", lambda: client.apps_connections_open(app_token=token), _connects, _APP_TOKEN, {}
    )


async def check_workspace(client: AsyncWebClient, settings: Settings, names: dict[str, str]) -> AsyncIterator[Finding]:
    """Puts the names of people and groups, which Slack says along the way, into `names`."""
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        code = str(error.response["error"])
        if code == "ratelimited":
            yield note("Slack", _NOT_ASKED)
            return
        yield fix("Slack", f"the bot's token was not accepted ({code}): install the app again")
        return
    except UNREACHABLE as error:
        said = f"{client.base_url} can't be reached, {why_unreached(error)}: check the network, and SLACK_API_URL"
        yield fix("Slack", said)
        return
    yield fine("Slack", f"workspace {answer['team']} ({answer['team_id']}), app {answer['user']}")
    granted = set(str(answer.headers.get("x-oauth-scopes", "")).replace(" ", "").split(",")) - {""}
    missing = sorted(scopes_for(settings.slack) - granted)
    if granted and missing:
        yield fix("scopes", f"missing: {', '.join(missing)}; add them, and install the app again")
    elif granted:
        yield fine("scopes", "all there")
    for what, ask, judge in _questions(client, settings):
        yield await _check(what, ask, judge, _FIXES, names)
    with suppress(SlackApiError, *UNREACHABLE):
        groups = (await client.usergroups_list(include_disabled=True)).get("usergroups")
        names.update({group: f"@{handle}" for group, handle in handles(groups) if handle})
    try:
        yield await check_layouts(client)
    except UNREACHABLE as error:
        yield note("layouts", f"not checked: Slack could not be asked, {why_unreached(error)}")


def _questions(
    client: AsyncWebClient, settings: Settings
) -> Iterator[tuple[str, Callable[[], Awaitable[AsyncSlackResponse]], Judge]]:
    policies = settings.policies.entries
    deciders = {entry for one in policies for entry in (*one.approvers, *one.escalate_to)}
    others = {entry for one in policies for entry in (*one.barred, *one.notify)}
    for entry in sorted(deciders | others):
        group, account = (_members, _account) if entry in deciders else (_judge_group, _judge_account)
        match entry.kind:
            case ApproverKind.GROUP:
                yield str(entry), partial(client.usergroups_users_list, usergroup=entry.value), group
            case ApproverKind.EMAIL:
                yield str(entry), partial(client.users_lookupByEmail, email=entry.value), account
            case ApproverKind.USER:
                yield str(entry), partial(client.users_info, user=entry.value), account
            case ApproverKind.PYTHON:
                pass
    channels = {policy.channel for policy in policies if policy.channel}
    if settings.audit.channel is not None:
        channels.add(settings.audit.channel)
    for channel in sorted(channels):
        yield channel, partial(client.conversations_info, channel=channel), _judge_channel


async def _check(
    what: str,
    ask: Callable[[], Awaitable[AsyncSlackResponse]],
    judge: Judge,
    fixes: dict[str, str],
    names: dict[str, str],
) -> Finding:
    try:
        answer = await ask()
    except SlackApiError as error:
        code = str(error.response["error"])
        if code == "ratelimited":
            return note(what, _NOT_ASKED)
        return fix(what, fixes.get(code, f"Slack says {code}"))
    except UNREACHABLE as error:
        return fix(what, f"Slack could not be asked, {why_unreached(error)}: run this again")
    if user := as_object(answer.get("user")):
        names[as_text(user.get("id"))] = person_name(user)
    ok, said = judge(answer)
    return fine(what, said) if ok else fix(what, said)


_FIXES = {
    "no_such_subteam": "there is no such user group, or it is switched off: take the id from the group's own page",
    "users_not_found": "no account has this address: correct it in the policy",
    "user_not_found": "there is no such account here: take the id from the person's profile",
    "user_not_visible": "the app can't see this account: name somebody of this workspace",
    "channel_not_found": "the app can't see this channel: invite it with /invite",
    "missing_scope": "a scope is missing: add it and install the app again",
}

_NOT_ASKED = "not checked, since Slack wants to be asked less often: run this again in a minute"

_APP_TOKEN = {
    "invalid_auth": "was not accepted: make an app-level token with connections:write, under Basic Information",
    "not_allowed_token_type": "is not an app-level token: it begins with xapp-, and is made under Basic Information",
    "missing_scope": "lacks connections:write: make a new one with it, under Basic Information",
    "socket_mode_not_enabled": "Socket Mode is switched off: turn it on in the app's settings",
}


def _connects(answer: AsyncSlackResponse) -> tuple[bool, str]:
    return bool(answer.get("url")), "Socket Mode can connect"


def _members(answer: AsyncSlackResponse) -> tuple[bool, str]:
    if not answer.get("users"):
        return False, "nobody is in this group: nobody could decide"
    return _judge_group(answer)


def _judge_group(answer: AsyncSlackResponse) -> tuple[bool, str]:
    """For a group that is only notified or barred."""
    count = len(answer.get("users") or [])
    return True, f"{count} member{'' if count == 1 else 's'}"


def _judge_account(answer: AsyncSlackResponse) -> tuple[bool, str]:
    """For somebody who is only notified or barred."""
    user = answer.get("user") or {}
    return True, f"is {KnownNames({str(user.get('id')): person_name(user)}).of(str(user.get('id')))}"


def _account(answer: AsyncSlackResponse) -> tuple[bool, str]:
    """Finds accounts that `authorise` would always refuse."""
    user = answer.get("user") or {}
    _, said = _judge_account(answer)
    if user.get("deleted"):
        return False, f"{said}, who is deactivated and can't decide: name somebody else"
    if user.get("is_bot"):
        return False, f"{said}, which is a bot and can't decide: name a person"
    if user.get("is_restricted") or user.get("is_ultra_restricted") or user.get("is_stranger"):
        return False, f"{said}, who is a guest and can't decide: name a member"
    return True, said


def _judge_channel(answer: AsyncSlackResponse) -> tuple[bool, str]:
    channel = answer.get("channel") or {}
    if channel.get("is_archived"):
        return False, "this channel is archived: unarchive it, or name another"
    if not channel.get("is_member"):
        return False, "the app is not in this channel: invite it with /invite"
    return True, "the app is in it"


def layouts() -> Iterator[tuple[str, JsonObject]]:
    """What is shown, and the arguments for `blocks.validate`."""
    asked = AskedCall(
        session=SessionKey("agent", "", ""),
        request_id="",
        call_id="",
        tool="deploy",
        arguments={"service": "checkout", "replicas": 3, "notes": "one\ntwo"},
        agent="agent",
        asked_by=Person("T0", "U0"),
        team="T0",
    )
    policy = Policy.model_validate({"tools": ["*"], "approvers": ["user:U0"], "edit": ["service", "replicas"]})
    call = Shown(open_confirmation("example", asked, policy, datetime.fromtimestamp(0, UTC)).row)
    for stage in (*State, *OutcomeKind):
        one = call.but(stage=stage, result={"status": "deployed"}, error="It did not answer.")
        yield f"the card “{stage.value}”", {"message": card(one).payload()}
    yield "the form to edit", {"view": Form(call, None).edit_view()}
    yield "the form to deny", {"view": deny_form(call, required=True)}
    yield "the Home tab", {"view": home_tab(HomeView(version=1, waiting=(call,), asked=(call,)))}


async def check_layouts(client: AsyncWebClient) -> Finding:
    """One finding about all of them. Raises what the client raises if Slack can't be reached."""
    count = 0
    for what, arguments in layouts():
        try:
            await client.blocks_validate(**arguments)  # type: ignore[arg-type]
        except SlackApiError as error:
            code = str(error.response["error"])
            if code in ("unknown_method", "ratelimited", "missing_scope", "not_allowed_token_type"):
                return note("layouts", f"not checked: Slack does not answer blocks.validate here ({code})")
            said = error.response.get("response_metadata", {}).get("messages", [])
            return fix(
                "layouts", f"Slack refuses {what}, {'; '.join([code, *said])}: report this as a bug of adk-confirm"
            )
        count += 1
    return fine("layouts", f"Slack accepts all {count}")
