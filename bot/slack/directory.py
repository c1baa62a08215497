"""Looks people up in Slack: accounts, members of groups, who can see what. Answers are kept for 30 seconds at most.

If Slack does not answer in time, the result is `Unresolved`, which refuses. Nothing here decides: `authorise` does.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.authorise import Facts, to_look_up
from adk_confirm.bot.confirmation.confirmation import Confirmation, Vote
from adk_confirm.bot.confirmation.edits import apply_edit
from adk_confirm.bot.confirmation.votes import claim_of, completing_votes
from adk_confirm.bot.policy.approvers import Account, Approver, ApproverKind, Members, Person, Unresolved
from adk_confirm.bot.policy.policies import CallFacts, Policies
from adk_confirm.bot.policy.python_approvers import PythonApprovers
from adk_confirm.bot.slack.calls import Slack, pages
from adk_confirm.bot.slack.lookups import PATIENCE, Lookups
from adk_confirm.bot.slack.names import NameLookup, Seen
from adk_confirm.bot.slack.rate_limits import (
    BY_EMAIL,
    CHANNEL_INFO,
    CHANNEL_MEMBERS,
    GROUP_USERS,
    GROUPS,
    USERS_INFO,
    Method,
)
from adk_confirm.bot.slack.troubles import Gone
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, canonical, objects, texts

RIGHTS_KNOWN_FOR = 30.0
"""Seconds for which an answer about a person's rights is used again."""

MOST_DMS = 10
_PAGE, _PAGES = 1000, 20

Question = tuple[Approver, CallFacts]
Key = tuple[Approver | str, str]


@dataclass(frozen=True)
class NotWritable:
    """The people who would decide can't get cards as direct messages. `sentence` says why, and what to do."""

    sentence: str


@dataclass(frozen=True)
class NamesNobody:
    """An address that no account has, or a group that is switched off. Nobody may decide by it. Whom it should bar is
    not known."""

    as_bar: Unresolved


@dataclass(frozen=True)
class ChannelFacts:
    shared: bool
    public: bool


class Directory:
    def __init__(
        self,
        slack: Slack,
        rules: Rules,
        *,
        patience: float = PATIENCE,
        seen: Seen | None = None,
    ) -> None:
        self.names, self._rules = NameLookup(slack, seen), rules
        self._python_approvers = PythonApprovers()
        self._slack = slack
        self._lookups = Lookups(RIGHTS_KNOWN_FOR, patience, slack.clock, slack.pause)

    # Accounts and members

    async def account(self, person: Person, *, anew: bool = False) -> Account | Unresolved:
        """What Slack says about an account in this workspace."""
        user = person.user
        found = await self._lookups.look_up(user, _account_key(person), lambda: self._ask_account(person), anew=anew)
        return _with_person(found, person)

    async def members(
        self, entry: Approver, call: CallFacts, *, anew: bool = False, listing: bool = False, bars: bool = False
    ) -> Members:
        """The people behind an entry of a policy now. `listing`: for a list, which no vote may have to wait for.
        `bars`: the entry says who may never decide."""
        if entry.kind is ApproverKind.USER:
            return frozenset({Person(call.team, entry.value)})
        key = _key(entry, call, listing=listing)
        found = await self._lookups.look_up(str(entry), key, lambda: self._ask_members(entry, call, listing), anew=anew)
        return _read_members(found, bars=bars)

    async def facts(
        self,
        row: Confirmation,
        vote: Vote,
        policies: Policies,
        speakers: frozenset[Person] = frozenset(),
        *,
        anew: bool = False,
        listing: bool = False,
    ) -> Facts:
        """Everything that `authorise` needs to know about this vote, asked at once. `anew`: without the cache."""
        barred, people, questions = _to_ask(row, vote, policies)
        bars = {*row.policy.barred, *barred}
        # Questions that were put off before come first. Otherwise they might never be asked.
        questions.sort(key=lambda question: not self._lookups.known.put_off(_key(*question)))
        accounts, answers = await asyncio.gather(
            asyncio.gather(*(self.account(person, anew=anew) for person in people)),
            asyncio.gather(*(self.members(e, c, anew=anew, listing=listing, bars=e in bars) for e, c in questions)),
        )
        others, members = dict(zip(people[1:], accounts[1:], strict=True)), _combine(row, barred, questions, answers)
        return Facts(account=accounts[0], others=others, members=members, barred=barred, speakers=speakers)

    def fresh_facts(
        self, row: Confirmation, vote: Vote, policies: Policies, asked: Facts | None = None
    ) -> Facts | None:
        """The facts about a vote, from the cache alone. None if the cache lacks one of them. If `asked` has unresolved
        facts, which no cache has, these stay unresolved, and so does what became too old while they were asked for."""
        barred, people, questions = _to_ask(row, vote, policies)
        bars = {*row.policy.barred, *barred}
        unresolved: dict[object, Unresolved] = {}
        if asked is not None:
            before = ((people[0], asked.account), *asked.others.items(), *asked.members.items())
            unresolved = {what: answer for what, answer in before if isinstance(answer, Unresolved)}
        too_old = next(iter(unresolved.values()), None)
        accounts: list[Any] = [
            self._lookups.known.peek(_account_key(person)) or unresolved.get(person, too_old) for person in people
        ]
        found = [(entry, self._lookups.known.peek(_key(entry, call))) for entry, call in questions]
        answers: list[Any] = [
            unresolved.get(entry, too_old) if known is None else _read_members(known, bars=entry in bars)
            for entry, known in found
        ]
        if any(known is None for known in (*accounts, *answers)):
            return None
        account, *rest = (_with_person(account, person) for account, person in zip(accounts, people, strict=True))
        others, members = dict(zip(people[1:], rest, strict=True)), _combine(row, barred, questions, answers)
        speakers = asked.speakers if asked else frozenset[Person]()  # who counts the vote adds later ones
        return Facts(account=account, others=others, members=members, barred=barred, speakers=speakers)

    def forget(self, user: str) -> None:
        """Drops what is cached about a person, after Slack reported a change."""
        self.names.forget(user)
        self._lookups.known.forget(lambda key: key == ("account", user))
        self._lookups.known.forget(lambda key: isinstance(key[0], Approver) and key[0].kind is ApproverKind.EMAIL)

    # Where people can be reached

    async def shared(self, channel: str) -> bool | Unresolved:
        """Whether a channel is shared with another company."""
        facts = await self._channel(channel)
        return facts if isinstance(facts, Unresolved) else facts.shared

    async def can_see(self, channel: str, user: str) -> bool:
        """Whether a full member can read a channel. False if Slack does not answer: a second notification does less
        harm than none."""
        facts = await self._channel(channel)
        if isinstance(facts, Unresolved) or facts.public:
            return not isinstance(facts, Unresolved)
        there = await self._lookups.look_up(channel, ("people in", channel), lambda: self._ask_channel_members(channel))
        return not isinstance(there, Unresolved) and user in there

    async def _channel(self, channel: str) -> ChannelFacts | Unresolved:
        return await self._lookups.look_up(channel, ("channel", channel), lambda: self._ask_channel(channel))

    async def people(
        self, entries: Iterable[Approver], call: CallFacts
    ) -> tuple[Person, ...] | NotWritable | Unresolved:
        """Everybody behind these entries, for direct messages."""
        found = await asyncio.gather(*(self.members(entry, call) for entry in entries))
        people: dict[Person, None] = {}
        for members in found:
            if isinstance(members, Unresolved):
                return members
            people.update(dict.fromkeys(sorted(members)))
        if not people:
            return NotWritable("Nobody is behind the policy's names, so there is nobody to write to.")
        if len(people) > MOST_DMS:
            return NotWritable(
                f"{len(people)} people may decide, and cards go to {MOST_DMS} at most as direct messages. "
                "Name a channel in the policy."
            )
        return tuple(people)

    # Asking

    async def _ask(self, method: Method, **arguments: object) -> JsonObject:
        return await self._lookups.ask(method.name, lambda: self._slack.call(method, **arguments))

    async def _ask_channel(self, channel: str) -> ChannelFacts:
        found = as_object((await self._ask(CHANNEL_INFO, channel=channel)).get("channel"))
        name = as_text(found.get("name"))
        self.names.seen(channel, name and f"#{name}")
        private = any(found.get(flag) for flag in ("is_private", "is_im", "is_mpim", "is_group"))
        return ChannelFacts(shared=bool(found.get("is_ext_shared")), public=not private)

    async def _ask_channel_members(self, channel: str) -> frozenset[str]:
        ask = partial(self._ask, CHANNEL_MEMBERS, channel=channel, limit=_PAGE)
        found = [texts(page.get("members")) async for page in pages(lambda cursor: ask(cursor=cursor), _PAGES)]
        return frozenset(chain.from_iterable(found))

    async def _ask_account(self, person: Person) -> Account:
        try:
            answer = await self._ask(USERS_INFO, user=person.user)
        except Gone:
            return Account(person, stranger=True)  # an account that this workspace can't see can't decide in it
        self.names.note(person.user, answer)
        user = as_object(answer.get("user"))
        grid = as_object(user.get("enterprise_user"))
        teams = {as_text(user.get("team_id")), *texts(grid.get("teams"))}
        return Account(
            Person(person.team, as_text(user.get("id"))),
            teams=frozenset(teams - {""}),
            bot=bool(user.get("is_bot")) or bool(user.get("is_workflow_bot")),
            deleted=bool(user.get("deleted")),
            guest=bool(user.get("is_restricted")) or bool(user.get("is_ultra_restricted")),
            stranger=bool(user.get("is_stranger")),
        )

    async def _ask_members(self, entry: Approver, call: CallFacts, listing: bool) -> Members | NamesNobody:
        users: Iterable[str]
        match entry.kind:
            case ApproverKind.USER:
                users = [entry.value]
            case ApproverKind.GROUP:
                try:
                    users = texts((await self._ask(GROUP_USERS, usergroup=entry.value)).get("users"))
                except Gone:
                    known = objects((await self._ask(GROUPS, include_disabled=True)).get("usergroups"))
                    if any(group.get("id") == entry.value for group in known):
                        return NamesNobody(Unresolved(str(entry), "this user group is switched off in Slack"))
                    # A group that never existed is a mistake, whatever it was named for.
                    return Unresolved(str(entry), "Slack knows no user group of this id")
            case ApproverKind.EMAIL:
                try:
                    answer = await self._ask(BY_EMAIL, email=entry.value)
                except Gone:
                    return NamesNobody(Unresolved(str(entry), "no account has this address"))
                users = [as_text(as_object(answer.get("user")).get("id"))]
            case ApproverKind.PYTHON:
                functions = self._rules.policies.functions
                named = await self._python_approvers.ask(entry.value, call, functions, listing=listing)
                if isinstance(named, Unresolved):
                    return named
                users = named
        return frozenset(Person(call.team, user) for user in users if user)


def _read_members(found: Members | NamesNobody, *, bars: bool) -> Members:
    if isinstance(found, NamesNobody):
        return found.as_bar if bars else frozenset()
    return found


def _with_person(account: Account | Unresolved, person: Person) -> Account | Unresolved:
    """The cached account with the person from the click: the cache knows users by id only."""
    if isinstance(account, Unresolved) or account.person.user != person.user:
        return account
    return replace(account, person=person)


def _account_key(person: Person) -> Key:
    return "account", person.user


def _key(entry: Approver, call: CallFacts, *, listing: bool = False) -> Key:
    """Only a function's answer depends on the call, which may be long, and thousands of answers are kept. A vote does
    not share a list's question to a function, which may wait long for its turn."""
    if entry.kind is not ApproverKind.PYTHON:
        return entry, ""
    about = hashlib.sha256(canonical(call.for_python()).encode("utf-8", "surrogatepass")).hexdigest()
    return entry, f"list {about}" if listing else about


def _to_ask(
    row: Confirmation, vote: Vote, policies: Policies
) -> tuple[tuple[Approver, ...], list[Person], list[Question]]:
    """Who is barred, whose accounts to look up, and the entries to look up, each for a call. A function is asked about
    the original call and, if the vote edits it, about the edited call. Otherwise an edit could take a call away from
    those who must decide it."""
    barred = policies.barred(row.asked.facts())
    people = [vote.voter, *(other.voter for other in completing_votes(row, vote))]
    calls = [row.asked.facts(row.revision.arguments)]
    if vote.edit is not None:
        after = row.asked.facts(apply_edit(row, vote.edit).arguments)
        calls += [after] if canonical(after.args) != canonical(calls[0].args) else []
    entries = to_look_up(row.policy, claim_of(row, vote).escalated, barred)
    python = ApproverKind.PYTHON
    return barred, people, [(one, call) for one in entries for call in (calls if one.kind is python else calls[:1])]


def _combine(
    row: Confirmation, barred: tuple[Approver, ...], questions: Sequence[Question], answers: Sequence[Members]
) -> dict[Approver, Members]:
    """One answer for each entry. People who may decide must be named for both calls; people are barred if named for
    either."""
    found: dict[Approver, Members] = {}
    for (entry, _), members in zip(questions, answers, strict=True):
        before = found.get(entry)
        if before is None or isinstance(before, Unresolved):
            found[entry] = before or members
        elif isinstance(members, Unresolved):
            found[entry] = members
        else:
            found[entry] = before | members if entry in (*row.policy.barred, *barred) else before & members
    return found
