"""`adk-confirm reapply`: the file has changed, and waiting calls get its policies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adk_confirm.bot.config.settings import load_settings
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import Confirmation, State, Vote, VoteKind
from adk_confirm.bot.ops.reapply import Reapplying, reapplied_line
from adk_confirm.bot.policy.approvers import Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast, count_next
from adk_confirm.bot.store.transactions import keep_time
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.backoffice import Backoffice, Office
from tests.support.deciding import ANNA, BEN, LEAD, full_member
from tests.support.stores import SECRET

ONCALL = parse_approver("group:S0ONCALL")
FILE = """
[[policy]]
tools = ["deploy*"]
approvers = ["user:U0ANNA", "user:U0BEN", "group:S0ONCALL"]
quorum = 2
"""


@pytest.fixture
def at(at: Backoffice) -> Backoffice:
    at.policies(FILE)
    at.office.members[ONCALL] = frozenset({LEAD})
    return at


async def edited(at: Backoffice, old: str, new: str, *options: str) -> str:
    """The operator changes the file, and runs what the command runs, with somebody to ask about people."""
    file = at.directory / "adk-confirm.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return await reapplied(at, *options)


async def reapplied(at: Backoffice, *options: str) -> str:
    settings = load_settings(at.directory / "adk-confirm.toml", {"ADK_CONFIRM_SECRET": SECRET})
    dry_run = bool(options)
    done = [row async for row in Reapplying(at.database, at.office, settings.policies, dry_run=dry_run).rows()]
    return "".join(f"{reapplied_line(row, dry_run=dry_run)}\n" for row in done)


async def test_nothing_changes_under_the_same_file(at: Backoffice) -> None:
    await at.asks()
    before = await at.lines()
    assert (await at.command("reapply")).out == "Every waiting call is already under the policies in the file.\n"
    assert await at.lines() == before


async def test_the_command_itself_says_what_would_change(at: Backoffice, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy = await at.asks()
    at.policies(FILE.replace("quorum = 2", "quorum = 1"))
    before = await at.lines()
    said = await at.command("reapply", "--dry-run")
    assert (said.code, said.err, said.out) == (0, "", f"{deploy[:8]}  deploy: would be under the file's policy\n")
    assert await at.lines() == before
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "another secret, as long as it was")
    said = await at.command("reapply", "--dry-run")
    assert (said.code, said.out) == (2, "")
    assert "The store belongs to another secret" in said.err


async def test_the_votes_of_who_may_not_any_more_fall(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA)
    said = await edited(at, '"user:U0ANNA", ', "", "--dry-run")
    line = f"{deploy[:8]}  deploy: would be under the file's policy; the approval of U0ANNA would stop counting"
    assert said.splitlines()[0] == line
    assert len((await at.row(deploy)).approvals) == 1
    assert [line.kind for line in await at.lines()] == ["asked", "approval"]
    said = await reapplied(at)
    assert (
        said.splitlines()[0]
        == f"{deploy[:8]}  deploy: is now under the file's policy; the approval of U0ANNA stopped counting"
    )
    assert (await at.row(deploy)).approvals == ()
    assert [line.kind for line in await at.lines()] == ["asked", "approval", "reapplied", "vote fell"]
    assert await reapplied(at) == ""


async def test_a_grant_is_for_the_condition_that_its_giver_read(at: Backoffice) -> None:
    at.policies(FILE + 'grant = "session"\nwhen = "args.version < \'3\'"\n')
    deploy, facts = await at.asks(), Facts(account=full_member(ANNA))
    ballot = SubmittedVote(
        id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
    )
    await at.database.run(cast, ballot, at.rules.policies, lambda *_: facts)
    assert [vote.grant for vote in (await at.row(deploy)).votes] == [True]
    await edited(at, "args.version < '3'", "args.version < '9'")
    assert [vote.grant for vote in (await at.row(deploy)).votes] == [False]


async def test_no_vote_falls_because_slack_is_silent(at: Backoffice) -> None:
    deploy = await at.asks()
    at.clock.passes(seconds=1)
    unvoted = await at.asks()
    await at.vote(deploy, ANNA)
    at.office.silent = True
    said = await edited(at, "quorum = 2", "quorum = 1")
    assert said.splitlines()[:2] == [
        f"{deploy[:8]}  deploy: left as it was; U0ANNA could not be looked up: Slack did not answer within 30 s",
        f"{unvoted[:8]}  deploy: is now under the file's policy",
    ]
    row = await at.row(deploy)
    assert (row.policy.quorum, len(row.approvals)) == (2, 1)
    at.office.silent = False
    assert (await reapplied(at)).startswith(f"{deploy[:8]}  deploy: is now under the file's policy; it is now approved")


async def test_it_waits_for_its_turn_to_ask_slack(at: Backoffice) -> None:
    class Busy(Office):
        """Slack takes no question at first."""

        questions = 0

        async def facts(
            self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = frozenset()
        ) -> Facts:
            self.questions += 1
            facts = await super().facts(row, vote, policies, speakers)
            if self.questions > 1:
                return facts
            return replace(facts, account=Unresolved(vote.voter.user, "Slack takes no more questions", after=0.01))

    deploy = await at.asks()
    await at.vote(deploy, ANNA)
    at.policies(FILE.replace("quorum = 2", "quorum = 1"))
    assert [
        done["trouble"]
        async for done in Reapplying(at.database, Busy(members=at.office.members), at.rules.policies).rows()
    ] == [None]
    assert (await at.row(deploy)).state is State.APPROVED


async def test_a_vote_that_comes_meanwhile_is_looked_up_too(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA)

    class Slow(Office):
        """While it looks Anna up, Ben votes."""

        def __init__(self) -> None:
            super().__init__(members=at.office.members)
            self.asked: list[Person] = []

        async def facts(
            self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = frozenset()
        ) -> Facts:
            self.asked.append(vote.voter)
            if len(self.asked) == 1:
                await at.vote(deploy, BEN)
            return await super().facts(row, vote, policies, speakers)

    at.policies(FILE.replace("quorum = 2", "quorum = 3"))
    slow = Slow()
    assert [done["fell"] async for done in Reapplying(at.database, slow, at.rules.policies).rows()] == []
    assert (await at.row(deploy)).state is State.APPROVED, "Ben's word came first, under the policy as it was"

    other = await at.asks()
    await at.vote(other, ANNA)
    deploy, slow.asked = other, []
    at.policies(FILE.replace("quorum = 2", "quorum = 4"))
    assert [done["fell"] async for done in Reapplying(at.database, slow, at.rules.policies).rows()] == [[]]
    assert slow.asked == [ANNA, ANNA, BEN]
    assert [vote.voter for vote in (await at.row(other)).approvals] == [ANNA, BEN]


@pytest.mark.parametrize("old", [range(1, 2), range(2, 3), range(100)], ids=["at first", "when it is stored", "always"])
async def test_what_is_too_old_when_the_last_is_known_is_looked_up_again(at: Backoffice, old: range) -> None:
    """Anna's account is deleted while Ben is looked up, or the store stands still, for longer than an answer counts."""
    at.policies(FILE.replace("quorum = 2", "quorum = 3"))
    deploy = await at.asks()
    for voter in (ANNA, BEN):
        await at.vote(deploy, voter)

    class Slow(Office):
        """What is known of Anna is too `old` at these times."""

        rounds = 0

        def fresh_facts(self, row: Confirmation, vote: Vote, policies: Policies, asked: Facts) -> Facts | None:
            asked = super().fresh_facts(row, vote, policies, asked) or asked
            self.rounds += vote.voter == ANNA
            gone = replace(asked, account=replace(full_member(ANNA), deleted=True))
            known = gone if self.rounds > 1 else asked
            return asked if vote.voter == BEN else None if self.rounds in old else known

    at.policies(FILE)
    slow = Slow(members=at.office.members)
    (done,) = [done async for done in Reapplying(at.database, slow, at.rules.policies).rows()]
    assert (await at.row(deploy)).state is State.WAITING
    if len(old) == 1:
        assert done["fell"] == [ANNA.user]
    else:
        assert done["trouble"] == "U0ANNA could not be looked up: it took so long that the answer is too old"


async def test_a_no_that_was_pressed_before_is_heard_before_the_file_decides(at: Backoffice) -> None:
    """Its voter is not looked up yet: otherwise the approvals would be enough, and the no would come too late."""
    deploy = await at.asks()
    await at.vote(deploy, ANNA)
    (waiting,) = (await at.vote(deploy, BEN, VoteKind.DENY, stored_only=True)).row.pending_votes
    said = await edited(at, "quorum = 2", "quorum = 1")
    assert said.splitlines()[0] == f"{deploy[:8]}  deploy: left as it was; people vote on it right now"
    facts = Facts(account=full_member(BEN), members=at.office.members)
    await at.database.run(count_next, deploy, waiting.id, lambda *_: facts, at.rules.policies)
    assert (await at.row(deploy)).state is State.DENIED
    assert await reapplied(at) == ""


async def test_without_a_token_no_vote_is_touched(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA)
    file = at.directory / "adk-confirm.toml"
    file.write_text(file.read_text().replace("quorum = 2", "quorum = 1"))
    said = await at.command("reapply")
    assert said.code == 1
    assert said.lines[-1] == "1 left as they were: fix what is said above, then run this again."
    assert said.lines[0].startswith(
        f"{deploy[:8]}  deploy: left as it was; U0ANNA could not be looked up: SLACK_BOT_TOKEN is"
    )
    assert (await at.row(deploy)).state is State.WAITING


async def test_it_asks_slack(at: Backoffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command looks up who is on call by itself."""
    deploy, kept = await at.asks(), await at.asks()
    for confirmation, voter in ((deploy, ANNA), (kept, BEN)):
        await at.vote(confirmation, voter)
    async with FakeSlack(our_app()) as slack:
        slack.person("anna", id=ANNA.user)
        slack.group("oncall", slack.person("ben", id=BEN.user), id="S0ONCALL")
        monkeypatch.setenv("SLACK_API_URL", slack.url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)
        file = at.directory / "adk-confirm.toml"
        file.write_text(file.read_text().replace('"user:U0ANNA", "user:U0BEN", ', ""))
        said = await at.command("reapply")
    assert sorted(said.lines) == sorted(
        [
            f"{deploy[:8]}  deploy: is now under the file's policy; the approval of U0ANNA stopped counting",
            f"{kept[:8]}  deploy: is now under the file's policy",
        ]
    )


async def test_what_is_not_a_confirmation_is_left_as_it_was(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.database.run(lambda tx: tx.run("UPDATE bot_confirmations SET body = '{}' WHERE id = :id", id=deploy))
    said = await edited(at, "quorum = 2", "quorum = 1")
    assert said.splitlines()[0].startswith(f"{deploy[:8]}  ?: left as it was; somebody changed it in the database")


async def test_an_edit_that_nobody_could_make_any_more_decides_nothing(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA, version="2.4.2")
    stays = f"{deploy[:8]}  deploy: is now under the file's policy\n"
    assert await edited(at, "quorum = 2", 'quorum = 2\nedit = ["version"]') == stays
    said = await edited(at, 'quorum = 2\nedit = ["version"]', "quorum = 1\nedit = false")
    assert said == f"{deploy[:8]}  deploy: is now under the file's policy; the approval of U0ANNA stopped counting\n"
    assert (await at.row(deploy)).state is State.WAITING


async def test_an_edit_takes_no_call_away_from_those_who_must_decide_it(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function names Anna for few replicas only."""
    deploy = await at.asks(arguments={"replicas": 20})
    await at.vote(deploy, ANNA, replicas=5)
    by_size = 'approvers = ["python:tests.support.python_approvers:by_size"]\nquorum = 1'
    async with FakeSlack(our_app()) as slack:
        for user in (ANNA, LEAD):
            slack.person(user.user.lower(), id=user.user)
        monkeypatch.setenv("SLACK_API_URL", slack.url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)
        at.policies(f'[[policy]]\ntools = ["deploy*"]\n{by_size}\n')
        said = await at.command("reapply")
    assert said.lines == [
        f"{deploy[:8]}  deploy: is now under the file's policy; the approval of U0ANNA stopped counting"
    ]


async def test_what_expired_stays_so_under_a_longer_time(at: Backoffice) -> None:
    """The service was down when the time was over."""
    deploy = await at.asks()
    await at.vote(deploy, ANNA)
    at.clock.passes(hours=25)
    assert await edited(at, "quorum = 2", 'quorum = 1\nexpires_after = "7d"') == ""
    await at.database.run(keep_time, deploy)
    assert (await at.row(deploy)).state is State.EXPIRED
