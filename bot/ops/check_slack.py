"""Checks Slack for `adk-confirm check`: whether the token works and has all scopes, and whether people and channels
exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adk_confirm.blocks.card import card
from adk_confirm.blocks.form import Form, deny_form
from adk_confirm.blocks.home import HomeView, home_tab
from adk_confirm.bot.config.settings import Environment, Settings
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.ops.explain import hypothetical
from adk_confirm.bot.ops.findings import Finding, fine, fix, note
from adk_confirm.bot.policy.approvers import ApproverKind
from adk_confirm.bot.policy.policies import CallFacts, Policy, may_decide
from adk_confirm.bot.slack.names import handles, person_name
from adk_confirm.bot.slack.own_identity import APP_TOKEN_FIXES, scopes_for
from adk_confirm.bot.slack.troubles import PATIENT, UNANSWERED, code_of, why_slack_is_unreached
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.open import not_for
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text


async def check_app_token(environment: Environment) -> Finding:
    """Asks for a Socket Mode address. Nothing connects to it, and it expires."""
    assert environment.app_token is not None
    client = AsyncWebClient(base_url=environment.api_url, retry_handlers=PATIENT)
    token = environment.app_token.get_secret_value()
    answer = await _ask("SLACK_APP_TOKEN", client.apps_connections_open(app_token=token), APP_TOKEN_FIXES)
    return answer if isinstance(answer, Finding) else fine("SLACK_APP_TOKEN", "Socket Mode can connect")


async def check_workspace(
    client: AsyncWebClient, settings: Settings, names: dict[str, str], owner: Mapping[str, str]
) -> AsyncIterator[Finding]:
    """Checks the token and its workspace. `owner`: whose the store is. Names of people and groups that Slack says along
    the way go into `names`."""
    refused = "the bot's token was not accepted ({code}): install the app again"
    unreached = f"{client.base_url} can't be reached: {{why}}. Check the network, and SLACK_API_URL"
    answer = await _ask("Slack", client.auth_test(), {}, refused, unreached)
    if isinstance(answer, Finding):
        yield answer
        return
    yield fine("Slack", f"workspace {answer['team']} ({answer['team_id']}), app {answer['user']}")
    if (why := not_for(owner, team=answer["team_id"])) is not None:
        yield fix("store", why)
    granted = set(str(answer.headers.get("x-oauth-scopes", "")).replace(" ", "").split(",")) - {""}
    missing = sorted(scopes_for(settings.slack) - granted)
    if granted and missing:
        yield fix("scopes", f"missing: {', '.join(missing)}; add them, and install the app again")
    elif granted:
        yield fine("scopes", "all there")
    with suppress(*UNANSWERED):
        groups = (await client.usergroups_list(include_disabled=True)).get("usergroups")
        names.update({group: f"@{handle}" for group, handle in handles(groups) if handle})
    for what, asked, decides in _questions(client, settings):
        answer = await _ask(what, asked, _FIXES)
        if isinstance(answer, Finding):
            yield answer
            continue
        if user := as_object(answer.get("user")):
            names[as_text(user.get("id"))] = person_name(user)
        yield _judge(what, answer.data, names, decides=decides)
    yield await _check_layouts(client)


def _questions(client: AsyncWebClient, settings: Settings) -> Iterator[tuple[str, Awaitable[AsyncSlackResponse], bool]]:
    """For each name in the settings: the name, the question to Slack, and whether it may decide (or is only named)."""
    deciders = {entry for one in settings.policies.entries for entry in may_decide(one, escalated=True)}
    for entry in sorted(settings.policies.named):
        match entry.kind:
            case ApproverKind.GROUP:
                yield str(entry), client.usergroups_users_list(usergroup=entry.value), entry in deciders
            case ApproverKind.EMAIL:
                yield str(entry), client.users_lookupByEmail(email=entry.value), entry in deciders
            case ApproverKind.USER:
                yield str(entry), client.users_info(user=entry.value), entry in deciders
            case ApproverKind.PYTHON:
                pass
    for channel in settings.channels:
        yield channel, client.conversations_info(channel=channel), False


async def _ask(
    what: str,
    asked: Awaitable[AsyncSlackResponse],
    fixes: Mapping[str, str],
    refused: str = "Slack says {code}",
    unreached: str = "Slack could not be asked: {why}. Run this again",
) -> AsyncSlackResponse | Finding:
    """Slack's answer, or the finding that there is none. `fixes`: what to do, by Slack's code."""
    try:
        return await asked
    except UNANSWERED as error:
        if isinstance(error, SlackApiError) and (code := code_of(error)):
            if code == "ratelimited":
                return note(what, "not checked, since Slack wants to be asked less often: run this again in a minute")
            return fix(what, fixes.get(code) or refused.format(code=code))
        return fix(what, unreached.format(why=why_slack_is_unreached(error)))


_FIXES = {
    "no_such_subteam": "there is no such user group, or it is switched off: take the id from the group's own page",
    "users_not_found": "no account has this address: correct it in the policy",
    "user_not_found": "there is no such account here: take the id from the person's profile",
    "user_not_visible": "the app can't see this account: name somebody of this workspace",
    "channel_not_found": "the app can't see this channel: invite it with /invite",
    "missing_scope": "a scope is missing: add it and install the app again",
}
_NEVER_DECIDE = {
    "deleted": "who is deactivated and can't decide: name somebody else",
    "is_bot": "which is a bot and can't decide: name a person",
    **dict.fromkeys(
        ("is_restricted", "is_ultra_restricted", "is_stranger"), "who is a guest and can't decide: name a member"
    ),
}
"""The accounts that `authorise` would always refuse."""


def _judge(what: str, answer: object, names: Mapping[str, str], *, decides: bool) -> Finding:
    match answer:
        case {"channel": {"is_archived": True}}:
            return fix(what, "this channel is archived: unarchive it, or name another")
        case {"channel": {"is_member": True}}:
            return fine(what, "the app is in it")
        case {"channel": _}:
            return fix(what, "the app is not in this channel: invite it with /invite")
        case {"users": [_, *_] as members}:
            called = names.get(what.partition(":")[2])  # as cards name it
            size = f"{len(members)} member{'' if len(members) == 1 else 's'}"
            return fine(what, f"{called}, {size}" if called else size)
        case {"users": _}:
            return fix(what, "nobody is in this group: nobody could decide") if decides else fine(what, "0 members")
        case {"user": {"id": str(id_)} as user}:
            said = f"is {KnownNames({id_: person_name(user)}).of(id_)}"
            never = [f"{said}, {why}" for flag, why in _NEVER_DECIDE.items() if decides and user.get(flag)]
            return fix(what, never[0]) if never else fine(what, said)
        case _:
            return fix(what, "Slack's answer can't be read: run this again")


def layouts() -> Iterator[tuple[str, JsonObject]]:
    """Each layout that the bot draws: its name, and the arguments for `blocks.validate`."""
    arguments: JsonObject = {"service": "checkout", "replicas": 3, "notes": "one\ntwo"}
    policy = Policy.model_validate({"tools": ["*"], "approvers": ["user:U0"], "edit": ["service", "replicas"]})
    call = shown_of(
        hypothetical(policy, CallFacts(tool="deploy", args=arguments, asker="U1", agent="agent", team="T0"))
    )
    for stage in (*State, *OutcomeKind):
        one = replace(call, stage=stage, result={"status": "deployed"}, error="It did not answer.")
        yield f"the card “{stage.value}”", {"message": card(one).payload()}
    yield "the form to edit", {"view": Form(call, None).edit_view()}
    yield "the form to deny", {"view": deny_form(call, required=True)}
    yield "the Home tab", {"view": home_tab(HomeView(version=1, waiting=(call,), asked=(call,)))}


async def _check_layouts(client: AsyncWebClient) -> Finding:
    """Asks Slack about all layouts, which gives one finding."""
    count = 0
    try:
        for what, arguments in layouts():  # noqa: B007  (the refusal names it)
            await client.blocks_validate(**arguments)  # type: ignore[arg-type]
            count += 1
    except UNANSWERED as error:
        if isinstance(error, SlackApiError) and (code := code_of(error)):
            if code in ("unknown_method", "ratelimited", "missing_scope", "not_allowed_token_type"):
                return note("layouts", f"not checked: Slack does not answer blocks.validate here ({code})")
            said = "; ".join([code, *error.response.get("response_metadata", {}).get("messages", [])])
            return fix("layouts", f"Slack refuses {what}, {said}: report this as a bug of adk-confirm")
        return note("layouts", f"not checked: Slack could not be asked, {why_slack_is_unreached(error)}")
    return fine("layouts", f"Slack accepts all {count}")
