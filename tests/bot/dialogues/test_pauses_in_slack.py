"""What agents of google-adk wait for besides tool confirmations, as people in Slack see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from adk_confirm.runtime.store.database import Tx
from tests.support.foreign.alone import ran
from tests.support.foreign.wishes import IMITATED
from tests.support.office import LAB, POLICY, Office, opening, withdraws
from tests.support.scraping import scrape

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
pytest.importorskip("google.adk.workflow")

Opens = Callable[..., AbstractAsyncContextManager[Office]]


@pytest.fixture
def opens(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    return opening("tests.support.foreign.pausing", POLICY, sqlite_url, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("agent", "kind", "named"),
    [("passport", "adk_request_passport", "adk_request_passport"), ("calendar", "adk_request_credential", "a sign-in")],
)
async def test_a_pause_that_slack_cannot_answer_is_named(
    opens: Opens, caplog: pytest.LogCaptureFixture, agent: str, kind: str, named: str
) -> None:
    async with opens(agent) as at:
        said = await at.ann.says("@adk-confirm for the border", at.deploys)
        line = await at.sees(said, f"waits for {named}, which can't be answered from Slack")
        assert "answer it in another client" in line
        assert kind in caplog.text
        assert at.bot.url is not None
        assert (await scrape(at.bot.url)).value("adk_confirm_unanswered_pauses_total", kind=kind) == 1


@pytest.mark.parametrize("how", ["", "_resumable", "_signed"])
async def test_a_sign_in_after_an_approval_is_a_wait_and_no_result(opens: Opens, how: str) -> None:
    """google-adk 2.13 asks no client for it, and goes on with what the tool returned. The card ends, too."""
    async with opens(f"calendar_gated{how}") as at:
        card = await at.ask("Monday")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "read_calendar needs a sign-in before it can run, and the agent asked no client")
        await at.sees(
            card, "I got {'pending': True}", "Failed: Read calendar", "asked no client for one, so it went no"
        )
        await at.rests()
        assert "Done" not in at.ann.sees(at.deploys)
        assert "waits for a sign-in, which" not in at.ann.sees(at.deploys)
        shown = "".join(str(made.args) for made in at.slack.calls) + await ledger_of(at)
        assert ("X-Api-Key" in shown, "credentialKey" in shown) == (False, False)
        assert ran() == []


@pytest.mark.parametrize(("name", "signed"), [*((name, "") for name in IMITATED), (IMITATED[0], "_signed")])
async def test_a_model_that_makes_the_framework_s_calls_asks_nobody(opens: Opens, name: str, signed: str) -> None:
    async with opens(f"imitating_{name}{signed}", "[[policy]]\ntools = ['*']\napprovers = ['user:U0BOB']") as at:
        said = await at.ann.says("@adk-confirm hello", at.deploys)
        await at.sees(said, f"({name} was taken out: only the framework")
        await at.rests()
        shown = "".join(str(made.args) for made in at.slack.calls)
        assert ("VPN" in shown, "Harmless" in shown) == (False, False)
        assert at.offers(said) == []


@pytest.mark.parametrize("signed", ["", "_signed"])
async def test_a_shell_command_is_asked_about_with_a_hint_alone(opens: Opens, signed: str) -> None:
    async with opens(f"bash{signed}") as at:
        card = await at.ask("echo hello")
        assert "Please approve or reject the bash command: echo hello" in card.text
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Execute bash", "hello")
        denied = await at.ask("touch here")
        await at.denies(at.bob, denied, "Not there")
        await at.sees(denied, "Denied: Execute bash")
        assert not Path("here").exists()


@pytest.mark.parametrize("signed", ["", "_signed"])
async def test_what_a_model_says_of_the_risk_is_the_hint(opens: Opens, signed: str) -> None:
    """A tool for a computer: people are asked only if the model wants it, and read why."""
    async with opens(f"computer{signed}") as at:
        card = await at.ask("Buy")
        assert "This buys the ticket." in card.text
        assert ran() == []
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Click on")
        assert ran() == [{"tool": "click_on", "button": "Buy"}]


async def test_a_long_running_operation_that_is_pending_is_reported(opens: Opens) -> None:
    async with opens("reporting") as at:
        said = await at.ann.says("@adk-confirm the quarter", at.deploys)
        await at.sees(said, "report is a long-running operation")
        assert ran() == [{"tool": "report", "topic": "the quarter"}]


async def test_what_waits_inside_an_agent_used_as_a_tool_is_reported(opens: Opens) -> None:
    """google-adk 2.13 gives it up: nothing can be answered."""
    async with opens("agent_tool") as at:
        said = await at.ann.says("@adk-confirm pay 5", at.deploys)
        await at.sees(said, "payer is an agent used as a tool")
        assert ran() == []


ENDED = "If other agents should follow payer in this turn, they did not run"


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_sequence_that_ended_with_its_first_approval_says_so(opens: Opens, resumable: bool) -> None:
    async with opens(f"in_turn_{'resumable' if resumable else 'bare'}") as at:
        card = await at.ask("5")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Pay in words")
        if not resumable:
            await at.sees(card, ENDED)
        await at.rests()
        assert (ENDED in str(at.ann.sees(at.deploys, thread=card))) is not resumable
        assert [one["tool"] for one in ran()] == ["pay_in_words", "report"][: 1 + resumable]


DECIDED = """
[[policy]]
tools = ["report"]
approvers = ["user:U0BOB"]
long_running = "decide"
"""


@pytest.mark.parametrize("agent", ["reporting_resumable", "reporting_signed"])
async def test_people_decide_how_a_long_running_operation_ends(opens: Opens, agent: str) -> None:
    async with opens(agent, DECIDED) as at:
        said = await at.ann.says("@adk-confirm the quarter", at.deploys)
        card = await at.sees(said, "Let this continue? Report")
        assert "T-1" in card
        assert "Edit…" not in card.buttons
        await at.bob.clicks(card, "Approve")
        await at.sees(
            said, "I got {'status': 'approved', 'ticket': 'T-1'}", "Approved by bob at ", ". The agent has the answer."
        )

        asked = await at.ann.says("@adk-confirm the year", at.deploys)
        card = await at.sees(asked, "Let this continue? Report")
        await at.denies(at.bob, card, "Too early")
        await at.sees(asked, "'status': 'rejected'", "Too early")
        await at.rests()
        assert "outside this app" not in at.ann.sees(at.deploys)
        assert [one["topic"] for one in ran()] == ["the quarter", "the year"]


async def test_what_an_operation_says_first_is_hidden_by_name(opens: Opens) -> None:
    async with opens("reporting", DECIDED + 'redact = ["ticket"]\n') as at:
        said = await at.ann.says("@adk-confirm the quarter", at.deploys)
        card = await at.sees(said, "Let this continue? Report", "It has begun, and waits for its result. It says:")
        assert '{"status":"pending","ticket":"••••"}' in card.text.replace(": ", ":").replace(", ", ",")


PAYS = """
[[policy]]
tools = ["pay"]
approvers = ["user:U0BOB"]
"""


@pytest.mark.parametrize("agent", ["function_resumable", "tool"])
async def test_a_node_that_asks_twice_runs_once_for_each_approval(opens: Opens, agent: str) -> None:
    """Its id is the same both times."""
    async with opens(agent, PAYS) as at:
        said = await at.ann.says("@adk-confirm 1500", at.deploys)
        first = await at.sees(said, "Pay: amount 1,500?")
        assert "Edit…" not in first.buttons
        await at.bob.clicks(first, "Approve")
        await at.sees(said, "booked {'paid': 1500}", "Done: Pay")
        assert [one["tool"] for one in ran()] == ["pay", "book"]

        await at.ann.says("@adk-confirm 7", thread=said)
        second = await at.sees(said, "Pay: amount 7?")
        await at.denies(at.bob, second, "Too little")
        await at.sees(said, "Denied by", "booked {'error'")
        assert [one["tool"] for one in ran()] == ["pay", "book", "book"]


@pytest.mark.parametrize(("agent", "ends"), [("quiet", "Done: Pay quietly"), ("in_vain", "the bank is down")])
async def test_a_node_without_a_result_is_not_asked_about(opens: Opens, agent: str, ends: str) -> None:
    async with opens(agent) as at:
        card = await at.ask("7")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, ends)
        await at.ann.finds("Failed:" if agent == "in_vain" else "Done:", at.deploys, thread=card)
        await at.rests()
        assert "nobody knows" not in at.ann.sees(at.deploys)
        assert len(ran()) == 1


async def test_the_older_card_of_a_node_that_asked_again_decides_nothing(opens: Opens) -> None:
    """google-adk would run the node with what the newer request shows."""
    async with opens("function", PAYS) as at:
        said = await at.ann.says("@adk-confirm 5", at.deploys)
        first = await at.sees(said, "amount 5")
        await at.ann.says("@adk-confirm 9000", thread=said)
        second = await at.sees(said, "amount 9,000")
        await at.sees(said, "The agent asked again. Use the newer card.")
        await at.rests()
        assert at.bob.now(first).buttons == ("All details", "History")
        await at.bob.clicks(first, "Approve", stale=True)
        await at.bob.gets_modal("too late")
        await at.bob.clicks(second, "Approve")
        await at.sees(said, "Done: Pay")
        assert ran()[0] == {"tool": "pay", "amount": 9000}


async def test_people_are_asked_about_an_approved_call_that_the_agent_passed_over(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """google-adk goes on to the next step after the first branch that was answered."""
    opens = opening("tests.support.foreign.shapes", DEPLOYS, sqlite_url, tmp_path, monkeypatch)
    async with opens("branches_of_one__resumable") as at:
        said = await at.ann.says("@adk-confirm go", at.deploys)
        first = await at.sees(said, "Deploy x?")
        other = await at.sees(said, "Deploy y?")
        await at.bob.clicks(first, "Approve")
        await at.sees(said, "Deploy the rest?")
        await at.bob.clicks(other, "Approve")
        await at.bob.finds("Did this take effect? Deploy", at.deploys, thread=said)
        await at.rests()
        assert [one["service"] for one in ran()] == ["x"]
        assert "outside this app" not in at.ann.sees(at.deploys)


DEPLOYS = """
[[policy]]
tools = ["deploy"]
approvers = ["user:U0BOB"]
"""


# Questions

BOBS = """
[[policy]]
inputs = ["about_*"]
approvers = ["user:U0BOB"]
expires_after = "1h"
redact = ["note"]
"""


async def test_a_question_that_redact_would_hide_is_not_asked(opens: Opens) -> None:
    async with opens("trip", BOBS.replace("note", "to")) as at:
        said = await at.ann.says("@adk-confirm How long is", at.deploys)
        refused = "A value that the policy hides is also in the question, which approvers have to see in full."
        await at.sees(said, refused)
        await at.rests()
        assert at.offers(said) == []


@pytest.mark.parametrize("agent", ["trip_resumable", "trip_signed"])
async def test_a_question_is_answered_by_whoever_asked_the_agent(opens: Opens, agent: str) -> None:
    async with opens(agent) as at:
        said = await at.ann.says("@adk-confirm Lisbon", at.deploys)
        card = await at.sees(said, "flow asks")
        assert card.buttons == ("All details", "Withdraw…", "History", "Answer…")
        assert "How long is the trip?" in card
        assert "to Lisbon" in card
        assert "@ann can answer" in card

        await at.bob.clicks(card, "Answer…")
        (await at.bob.gets_modal("the policy does not name you")).closes()

        await at.ann.clicks(card, "Answer…")
        modal = await at.ann.gets_modal("Answer")
        assert "Nights do not count." in modal
        await modal.submits({"days": "3", "hotel": "yes", "note": "by the sea"})
        await at.sees(said, "Answered by ann", "booked {'days': 3, 'hotel': True, 'note': 'by the sea'}")
        assert ran() == [{"tool": "book", "answer": {"days": 3, "hotel": True, "note": "by the sea"}, "kind": "dict"}]
        await at.sees(said, "ann answered ")
        await at.rests()
        assert at.ann.now(card).buttons == ("All details", "History")


async def test_a_policy_names_who_answers_and_what_is_hidden_of_it(opens: Opens) -> None:
    async with opens("trip", BOBS) as at:
        said = await at.ann.says("@adk-confirm Lisbon", at.deploys)
        card = await at.sees(said, "@bob can answer")
        await at.ann.clicks(card, "Answer…")
        (await at.ann.gets_modal("You can't answer this, because the agent asks it on your behalf")).closes()

        await at.bob.clicks(card, "Answer…")
        await (await at.bob.gets_modal("Answer")).submits({"days": "2", "hotel": "no", "note": "my secret wish"})
        await at.sees(said, "Answered by bob", "bob answered ")
        assert ran()[0]["answer"] == {"days": 2, "hotel": False, "note": "my secret wish"}
        assert "my secret wish" not in at.ann.sees(at.deploys)
        assert "my secret wish" not in await ledger_of(at)


async def test_a_question_that_nobody_answers_expires(opens: Opens) -> None:
    async with opens("trip", BOBS, time_moves=True) as at:
        said = await at.ann.says("@adk-confirm Lisbon", at.deploys)
        card = await at.sees(said, "@bob can answer")
        await at.later(hours=2)
        await at.sees(
            said,
            "has expired with 0 of 1 answer.",
            "⌛ Expired: ",
            "The agent got no answer.",
        )
        await at.rests()
        assert at.ann.now(card).buttons == ("All details", "History")
        assert ran() == []


@pytest.mark.parametrize(
    ("agent", "typed", "answer"),
    [
        ("number", "12", 12),
        ("anything", "12", "12"),
        ("anything", '{"a": 1}', '{"a": 1}'),
        ("anything", "a day", "a day"),
    ],
)
async def test_an_answer_without_fields_keeps_its_type(opens: Opens, agent: str, typed: str, answer: object) -> None:
    """google-adk reads a text as JSON where it can."""
    async with opens(agent) as at:
        said = await at.ann.says("@adk-confirm now", at.deploys)
        card = await at.sees(said, "flow asks")
        await at.ann.clicks(card, "Answer…")
        await (await at.ann.gets_modal("Answer")).submits({"answer": typed})
        await at.sees(said, "Answered by ann", "booked")
        assert ran() == [{"tool": "book", "answer": answer, "kind": type(answer).__name__}]


async def test_a_model_asks_and_reads_the_answer(opens: Opens) -> None:
    async with opens("model", time_moves=True) as at:
        said = await at.ann.says("@adk-confirm Which colour?", at.deploys)
        card = await at.sees(said, "clerk asks")
        assert "Which colour?" in card
        await at.ann.clicks(card, "Answer…")
        await (await at.ann.gets_modal("Answer")).submits({"answer": "green"})
        await at.sees(said, "I got {'result': 'green'}")

        asked = await at.ann.says("@adk-confirm Which size?", at.deploys)
        await at.sees(asked, "clerk asks")
        await at.later(hours=25)
        await at.sees(asked, "I got {'error': 'nobody answered within 1d'}")
        await at.rests()
        assert "outside this app" not in at.ann.sees(at.deploys)


async def test_a_question_that_takes_no_error_is_reported_by_a_message_that_nobody_answered(opens: Opens) -> None:
    """google-adk fails over an answer that does not fit the question's schema."""
    async with opens("model_number", time_moves=True) as at:
        said = await at.ann.says("@adk-confirm How many?", at.deploys)
        await at.sees(said, "clerk asks")
        await at.later(hours=25)
        await at.sees(said, 'I heard: Nobody answered your question "How many?"')
        await at.rests()
        assert "failed" not in at.ann.sees(at.deploys)


@pytest.mark.parametrize("agent", ["choice", "choice_signed"])
async def test_a_model_offers_a_choice(opens: Opens, agent: str) -> None:
    async with opens(agent) as at:
        said = await at.ann.says("@adk-confirm Which colour?", at.deploys)
        card = await at.sees(said, "clerk asks")
        assert "red" in card
        await at.ann.clicks(card, "Answer…")
        await (await at.ann.gets_modal("Answer")).submits({"answer": "blue"})
        await at.sees(said, "I got {'result': 'blue'}", "Answered by ann")
        await at.rests()
        assert "outside this app" not in at.ann.sees(at.deploys)


async def ledger_of(at: Office) -> str:
    """All that the audit holds, as one text."""

    def read(tx: Tx) -> str:
        return "\n".join(tx.column("SELECT content FROM bot_ledger"))

    return await at.bot.database.read(read)


async def test_a_tool_of_our_own_runtime_asks(open_office: Opens) -> None:
    async with open_office(target=LAB, time_moves=False) as at:
        said = await at.ann.says('@adk-confirm survey {"topic": "bikes"}', at.deploys)
        card = await at.sees(said, "What about bikes?")
        await at.ann.clicks(card, "Answer…")
        await (await at.ann.gets_modal("Answer")).submits({"colour": "blue", "size": "3"})
        await at.sees(said, "Answered by")
        await at.rests()
        (done,) = at.ran()
        assert (done["tool"], done["answer"]) == ("survey", {"why": "", "colour": "blue", "size": 3})

        said = await at.ann.says("@adk-confirm name_it {}", at.deploys)
        card = await at.sees(said, "What shall it be called?")
        await withdraws(at.ann, card)
        await at.sees(said, "Withdrawn: What shall it be called?")
        await at.rests()
        assert len(at.ran()) == 1
