"""The operator's commands that change something, beside whoever has the store open and without anybody."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from adk_confirm.blocks.shown import Paused
from adk_confirm.bot.cli import main
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import Confirmation, State, VoteKind
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.ops.check import check_files
from adk_confirm.bot.ops.command import account, format_time, open_for_reading
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast
from adk_confirm.bot.store.letters import read_pause
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.pause import mark_for_drawing
from adk_confirm.bot.worker.worker import read_card_context
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database
from tests.support.backoffice import Backoffice, CommandOutput
from tests.support.deciding import ANNA, full_member
from tests.support.kill import child
from tests.support.office import Office, Opens, operates
from tests.support.stores import SECRET, unguarded


async def both_ways(at: Backoffice, *arguments: str) -> list[CommandOutput]:
    """Beside the service, and then with nobody there who has the store open."""
    said = [await at.command(*arguments)]
    await at.database.close()
    try:
        said.append(await at.command(*arguments))
    finally:
        await at.reopen()
    return said


# Pause and resume


def is_behind(row: Confirmation) -> bool:
    """Whether a card of it shows what is not so any more."""
    return any(place.drawn_version < row.face for place in row.places)


async def test_pausing_is_reported_once_and_so_is_resuming(at: Backoffice) -> None:
    first, again = await both_ways(at, "pause")
    assert first.out == "Runs are paused. Approved calls start once you run `adk-confirm resume`; the cards say so.\n"
    assert again.out == "Runs were already paused.\n"
    assert await at.database.read(read_pause)
    first, again = await both_ways(at, "resume")
    assert first.out == "Runs are resumed. Approved calls start now.\n"
    assert again.out == "Runs were not paused.\n"
    assert not await at.database.read(read_pause)
    lines = await at.lines("system")
    assert [line.kind for line in lines] == ["paused", "resumed"]
    assert json.loads(lines[0].content or "")["who"] == {"team": "", "user": f"operator {account()}"}


async def test_more_cards_than_one_transaction_draws(at: Backoffice) -> None:
    asked = [await at.asks() for _ in range(5)]
    await at.is_posted()
    after: str | None = ""
    turns = 0
    while after is not None:
        after = await at.database.run(mark_for_drawing, after, 2)
        turns += 1
    assert turns == 3
    assert all([is_behind(await at.row(name)) for name in asked])


# Withdraw


async def test_the_operator_has_a_name_and_a_reason(at: Backoffice) -> None:
    deploy = await at.asks()
    assert (await at.command("withdraw", deploy, "--as", "lee", "--reason", "wrong version")).code == 0
    row = await at.row(deploy)
    assert row.decision is not None
    assert row.decision.reason == "withdrawn by an operator of this app (wrong version); it did not run"
    card = shown_of(row)
    assert (card.decided_by, card.reason) == (("operator lee",), "wrong version")
    shown = (await at.command("audit", "show", deploy)).out
    assert "operator lee withdrew deploy. It did not run." in shown
    assert "“wrong version”" in shown

    paused = await at.command("pause", "--as", "lee", "--reason", "the database moves", "--json")
    assert json.loads(paused.out) == {"changed": True}
    around = await at.database.read(read_card_context, await at.row(await at.asks()))
    assert around.paused == Paused("operator lee", "the database moves")
    assert (
        (await at.command("pending"))
        .lines[0]
        .endswith("by operator lee (the database moves). `adk-confirm resume` starts them again.")
    )
    await at.command("resume", "--as", "Zoë Ω")
    story = (await at.command("audit", "show", "system")).out
    assert "operator lee paused runs." in story
    assert "operator Zoë Ω resumed runs." in story


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\nb\x07"])
async def test_a_name_that_nobody_could_read_is_refused(at: Backoffice, name: str) -> None:
    assert "must be a name of 1 to 60 printable characters" in await at.refusal("pause", "--as", name)


async def test_what_is_over_can_not_be_taken_back(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA, VoteKind.DENY)
    said = await at.refusal("withdraw", deploy)
    assert said == f"Confirmation {deploy} is already denied, so it can't be withdrawn."
    assert await at.refusal("withdraw", "nothing") == (
        "There is no confirmation nothing in this store. `adk-confirm pending` lists what waits."
    )
    short = "in this store. Write 6 characters of the id or more. `adk-confirm pending` lists what waits."
    assert (await at.refusal("withdraw", deploy[:5])).endswith(short)
    assert "Write 6 characters of the id or more." in await at.refusal("revoke", deploy[:5])
    assert "Write 6 characters of the id or more." in await at.refusal("audit", "show", "x")


async def test_votes_that_came_before_are_heard_before(at: Backoffice) -> None:
    deploy = await at.asks()
    await at.vote(deploy, ANNA, stored_only=True)
    said = await at.command("withdraw", deploy)
    assert said.out == (
        f"The withdrawal of confirmation {deploy} is stored. Votes that came before it are counted first; "
        f"`adk-confirm audit show {deploy}` shows the result.\n"
    )
    assert (await at.row(deploy)).state is State.WAITING
    assert [vote.voter.user for vote in (await at.row(deploy)).pending_votes] == ["U0ANNA", f"operator {account()}"]


# Stores that can't be written to


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_told_whose_it_is() -> None:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "x.db"
        await (await open_store(f"sqlite:///{path}", SECRET)).close()
        async with child(looks_as_nobody, str(path)) as process:
            said = await process.finished()
    assert said == [f"{path} belongs to another user. Run this command as the user that runs the service."]


async def looks_as_nobody(path: str) -> None:
    os.setuid(65534)
    try:
        async with open_for_reading(f"sqlite:///{path}"):
            pass
    except StoreError as error:
        print(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_who_may_read_it_and_not_write_to_it_is_told_by_check_and_by_commands() -> None:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "x.db"
        await (await open_store(f"sqlite:///{path}", SECRET)).close()
        path.chmod(0o644)
        async with child(writes_as_nobody, str(path)) as process:
            said = await process.finished()
    assert said == [
        f"{path} and its folder can't be written to: run this as the service's user, and let both belong to that user",
        "The store can't be written to. Nothing of it was stored. Run this as the user that runs the service: its "
        "files, their folder and the disk must be writable for that user.",
    ]


async def writes_as_nobody(path: str) -> None:
    os.setuid(65534)
    finding = check_files(f"sqlite:///{path}")
    assert finding is not None
    print(finding.said)
    try:
        await Database.open(f"sqlite:///{path}", beside=True)
    except StoreError as error:
        print(error)


def test_a_store_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "long enough for a secret")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    Path("adk-confirm.toml").write_text("")
    for command in (
        "pending",
        "grants",
        "pause",
        "resume",
        "retry",
        "reapply",
        "withdraw abcdef",
        "audit verify",
        "audit purge --before 1d",
    ):
        assert main(command.split()) == 2
        said = capsys.readouterr().err
        assert "There is no store at adk-confirm.db yet. `adk-confirm serve` makes it when it first starts." in said
    assert [path.name for path in tmp_path.iterdir()] == ["adk-confirm.toml"], "looking for a store makes none"


# Grants and revoke


SESSION = "slack-T0ACME-C0DEPLOYS-1.1"
GRANTING = '[[policy]]\ntools = ["deploy*"]\napprovers = ["user:U0ANNA"]\ngrant = "session"\n'
FACTS = Facts(account=full_member(ANNA))


async def granted(at: Backoffice, policies: str) -> str:
    """A call that Anna approved, and the next ones like it; the grant's id."""
    at.policies(policies)
    await at.hears("deploy it")
    deploy = await at.asks("deploy", {"version": "2.4.1"})
    assert await at.refusal("revoke", deploy) == (
        f"Grant {deploy} is not in force. `adk-confirm grants` lists those that are."
    )
    ballot = SubmittedVote(
        id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
    )
    await at.database.run(cast, ballot, at.rules.policies, lambda *_: FACTS)
    return deploy


async def test_a_grant_ends_and_an_unknown_one_is_reported(at: Backoffice) -> None:
    deploy = await granted(at, GRANTING)
    listed = (await at.command("grants")).lines
    assert listed[0] == f"{deploy[:8]}  deploy with version 2.4.1"
    until = format_time(at.clock.now + timedelta(days=1))
    assert listed[1] == f"    by U0ANNA, for one thread of C0DEPLOYS; until {until}, 1 d left; not used yet"
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    (one,) = json.loads((await at.command("grants", "--json")).out)["grants"]
    assert (one["id"], one["given_by"], one["on"], one["uses"]) == (deploy, ["U0ANNA"], {"version": "2.4.1"}, 1)
    assert one["most"] is None

    said = await at.command("revoke", deploy[:10])

    assert said.out == f"Grant {deploy} is revoked. Calls like it ask again.\n"
    assert "is not in force" in await at.refusal("revoke", deploy)
    assert [line.kind for line in await at.lines()][-2:] == ["grant revoked", "vote refused"]
    assert (await at.command("grants")).out == "No grants are in force: every call asks.\n"


async def test_a_grant_whose_policy_is_not_in_the_file_any_more_allows_nothing(at: Backoffice) -> None:
    await granted(at, GRANTING)
    at.policies(GRANTING + "reason = true\n")
    _, *about = (await at.command("grants")).lines
    assert " ".join(map(str.strip, about)).endswith("not used yet; it allows nothing: the policy changed")
    (one,) = json.loads((await at.command("grants", "--json")).out)["grants"]
    assert one["policy_changed"] is True
    at.policies(GRANTING)
    assert "allows nothing" not in (await at.command("grants")).out


async def test_what_may_differ_is_in_the_list_of_grants(at: Backoffice) -> None:
    deploy = await granted(at, GRANTING + "grant_on = []\n")
    assert (await at.command("grants")).lines[0] == f"{deploy[:8]}  deploy with any version"


async def test_how_far_something_may_differ_is_in_the_list_too(at: Backoffice) -> None:
    """A grant lets no call through that its policy does not govern."""
    await granted(at, GRANTING + "grant_on = []\nwhen = \"!has(args.replicas) || args.version != '3'\"\n")
    assert (await at.command("grants")).lines[0].endswith("  deploy with version within the policy")
    (one,) = json.loads((await at.command("grants", "--json")).out)["grants"]
    assert (one["free"], one["limits"]) == (["version"], {"version": "within the policy"})


async def test_a_grant_for_some_uses_says_how_many_are_left(at: Backoffice) -> None:
    await granted(at, GRANTING.replace('"session"', '{ for = "30m", uses = 3 }'))
    assert (await at.command("grants")).lines[1].endswith("left; 0 of 3 uses")
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    assert (await at.command("grants")).lines[1].endswith("left; 1 of 3 uses")


@pytest.mark.parametrize("allowed", ['"session"', '{ for = "30m", uses = 3 }'])
async def test_a_use_that_somebody_deleted_is_not_passed_over(at: Backoffice, allowed: str) -> None:
    await granted(at, GRANTING.replace('"session"', allowed))
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    await at.database.run(unguarded)
    await at.database.run(lambda tx: tx.run("DELETE FROM bot_ledger WHERE kind = 'grant used'"))
    _, *about = (await at.command("grants")).lines
    assert "left; uses not known, since the ledger was changed" in " ".join(map(str.strip, about))
    assert max(map(len, about)) <= 100


# Pause beside a running bot: no call begins meanwhile, and every card says why


PAUSED = "Approved calls start once they are resumed."


async def unheard(at: Office) -> int:
    """How many letters no agent was told."""
    waiting = "SELECT count(*) FROM bot_mail WHERE done_at IS NULL"
    return int(await at.bot.database.read(lambda tx: tx.value(waiting)))


async def test_nothing_begins_and_the_cards_say_so(open_office: Opens, database_url: str) -> None:
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        other = await at.ask("reimburse 1700 for the offsite")

        assert await operates(at, database_url, "pause") == {"changed": True}
        for shown in (card, other):
            waiting = await at.ann.finds(PAUSED, at.deploys, thread=shown)
            assert waiting.ts == shown.ts
        await at.bob.clicks(card, "Approve")
        held = await at.ann.finds("Paused: Reimburse", at.deploys, thread=card)
        assert "Starts once runs are resumed." in held
        await at.ann.says("@adk-confirm reimburse 1900 for the taxi", at.deploys)
        await at.slack.settled()
        await at.later(minutes=1)
        assert at.ran() == []
        assert await unheard(at) == 2

        assert await operates(at, database_url, "resume") == {"changed": True}
        await at.later(seconds=10)
        done = await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        assert done.ts == card.ts
        assert PAUSED not in done
        await at.ann.finds("Reimburse €1,900", at.deploys)
        await at.rests()
        assert PAUSED not in at.ann.now(other)
        assert [line["amount"] for line in at.ran()] == [1500]


async def test_what_runs_may_end(open_office: Opens, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_office(target="tests.support.lab:agent") as at:
        gate = at.log.with_name("gate")
        monkeypatch.setenv("LAB_GATE", str(gate))
        card = await at.ask('work {"on": "the roof"}')
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Running:", at.deploys, thread=card)
        await operates(at, database_url, "pause")
        gate.touch()
        await at.ann.finds("Done: Work", at.deploys, thread=card)
