"""The ledger: lines are only added, chains survive a purge, and verification finds changes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.audit.checkpoints import (
    Anchor,
    Checkpoint,
    CheckpointKey,
    Proof,
    PublicKeys,
    checkpoint,
    read_anchor,
)
from adk_confirm.bot.audit.ledger import SYSTEM, Head, LedgerLine, LineKind, append, line_hash
from adk_confirm.bot.audit.verification import (
    Broken,
    Integrity,
    Report,
    SealedCheckpoints,
    group_emptied,
    read_purges,
    verify,
)
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import step_content
from adk_confirm.bot.ops.audit_export import COLUMNS, csv_header, csv_row, defuse, export_object, jsonl_row
from adk_confirm.bot.ops.audit_verify import verification_results
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.seal import Seal
from tests.support.deciding import NOON, without_content

SECRET = Seal("the secret of the tests")
UNNAMED = KnownNames()


def chain(name: str, length: int, start: datetime = NOON) -> list[LedgerLine]:
    lines: list[LedgerLine] = []
    for n in range(length):
        head = lines[-1].head if lines else Head()
        content: JsonObject = {"n": n, "odd": "\ud800\x00 é"}
        at = start + timedelta(seconds=n)
        lines.append(
            append(
                head, name, LineKind.APPROVAL, content, SECRET, at=at, salt=f"s{n}", confirmation="k1", tool="deploy"
            )
        )
    return lines


LINES = [*chain("slack-1", 5), *chain("slack-2", 3), *chain(SYSTEM, 4)]


def heads(lines: Sequence[LedgerLine], upto: int) -> dict[str, Head]:
    return {line.chain: line.head for line in lines if line.seq <= upto}


KEY = CheckpointKey("5a" * 32)
PUBLIC = PublicKeys("00" * 31 + "01", KEY.public)  # an older key, and the one in use
FIRST = checkpoint(None, heads(LINES, 2), NOON, SECRET, KEY)
SECOND = checkpoint(FIRST, heads(LINES, 9), NOON + timedelta(hours=1), SECRET, KEY)
TOLD = f"{FIRST.publish(SECRET, KEY)}\nsome log line\n2030 INFO {SECOND.publish(SECRET, KEY)}"
ANCHOR = read_anchor(TOLD, SECRET)


def found(
    lines: Sequence[LedgerLine] = LINES,
    checkpoints: Sequence[Checkpoint] = (FIRST, SECOND),
    anchor: Anchor | None = None,
    keys: Proof = SECRET,
) -> Report:
    sealed = SealedCheckpoints.read(checkpoints, keys)
    return verify(lines, sealed, purges=read_purges(lines, sealed), anchor=anchor)


def forged(line: LedgerLine, **changes: object) -> LedgerLine:
    """As somebody who owns the database would do it: with a hash that fits again."""
    changed = replace(line, **changes)  # type: ignore[arg-type]  # the fields of Line
    return replace(changed, hash=line_hash(changed))


def rewritten(lines: Sequence[LedgerLine], name: str, change: Callable[[LedgerLine], LedgerLine]) -> list[LedgerLine]:
    """A whole chain written anew, every hash in order."""
    head, kept = Head(), []
    for line in lines:
        if line.chain == name:
            line = forged(change(line), previous=head.hash)
            head = line.head
        kept.append(line)
    return kept


def purge_of(lines: Sequence[LedgerLine], seal: Seal) -> LedgerLine:
    """The line after the last one, which says that the content of these is gone."""
    gone = group_emptied([(line.chain, line.seq) for line in lines])
    content = step_content(Step(kind=LineKind.PURGED, at=NOON, emptied=gone))
    return append(LINES[-1].head, SYSTEM, LineKind.PURGED, content, seal, at=NOON, salt="s")


class TestSound:
    @pytest.mark.parametrize("keys", [SECRET, PUBLIC], ids=["secret", "public key"])
    def test_with_an_anchor_it_is_untampered(self, keys: Proof) -> None:
        report = found(anchor=read_anchor(TOLD, keys), keys=keys)
        assert (report.finding, report.anchored, report.lines, report.chains) == (Integrity.UNTAMPERED, 2, 12, 3)
        assert [*verification_results(report)] == ["untampered up to checkpoint 2: 12 lines in 3 chains"]

    def test_without_one_it_is_consistent_and_no_more(self) -> None:
        report = found()
        assert report.finding is Integrity.CONSISTENT
        assert [line[:32] for line in verification_results(report)] == [
            "consistent: 12 lines in 3 chains",
            "only an anchor (--anchor FILE) s",
        ]

    def test_an_empty_ledger(self) -> None:
        assert found([], []).finding is Integrity.CONSISTENT

    def test_purged_lines_still_verify(self) -> None:
        purge = purge_of([line for line in LINES if line.seq < 3], SECRET)
        report = found([*(without_content(line) if line.seq < 3 else line for line in LINES), purge], anchor=ANCHOR)
        assert (report.finding, report.purged) == (Integrity.UNTAMPERED, 6)
        assert "6 of them purged" in "; ".join(verification_results(report))

    def test_the_same_instant_in_another_zone_is_the_same_line(self) -> None:
        east = timezone(timedelta(hours=5))
        assert found([replace(line, at=line.at.astimezone(east)) for line in LINES]).finding is Integrity.CONSISTENT

    def test_lines_after_the_last_checkpoint_only_need_to_fit(self) -> None:
        assert found(LINES, [FIRST], read_anchor(FIRST.publish(SECRET), SECRET)).anchored == 1


BREAKS: dict[str, tuple[list[LedgerLine], str, int, str]] = {
    "content changed": (
        [replace(line, content='{"n":9}') if (line.chain, line.seq) == ("slack-1", 3) else line for line in LINES],
        *("slack-1", 3, "its content was changed"),
    ),
    "header changed": (
        [replace(line, tool="lookup") if (line.chain, line.seq) == ("slack-2", 2) else line for line in LINES],
        *("slack-2", 2, "its header was changed"),
    ),
    "forged in the middle": (
        [forged(line, tool="lookup") if (line.chain, line.seq) == ("slack-1", 3) else line for line in LINES],
        *("slack-1", 4, "it does not continue the line before it"),
    ),
    "removed from the middle": (
        [line for line in LINES if (line.chain, line.seq) != ("slack-1", 2)],
        *("slack-1", 2, "line 2 is missing"),
    ),
    "removed from the start": (
        [line for line in LINES if (line.chain, line.seq) != (SYSTEM, 1)],
        *(SYSTEM, 1, "line 1 is missing"),
    ),
    "removed from the end": (
        [line for line in LINES if (line.chain, line.seq) != ("slack-1", 5)],
        *("slack-1", 5, "it is missing; checkpoint 2 was made over it"),
    ),
    "a chain removed": (
        [line for line in LINES if line.chain != "slack-2"],
        *("slack-2", 2, "it is missing; checkpoint 1 was made over it"),
    ),
    "a chain written anew": (
        rewritten(LINES, "slack-2", lambda line: replace(line, tool="lookup")),
        *("slack-2", 2, "it is not the line that checkpoint 1 was made over"),
    ),
    "content gone without a purge": (
        [replace(line, content=None) if (line.chain, line.seq) == (SYSTEM, 4) else line for line in LINES],
        *(SYSTEM, 4, "its content was removed, but not by a purge"),
    ),
}


@pytest.mark.parametrize("keys", [SECRET, PUBLIC], ids=["secret", "public key"])
@pytest.mark.parametrize("case", BREAKS)
def test_the_first_broken_line_is_named(case: str, keys: Proof) -> None:
    lines, name, seq, why = BREAKS[case]
    report = found(lines, anchor=read_anchor(TOLD, keys), keys=keys)
    assert (report.finding, report.broken) == (Integrity.BROKEN, Broken(name, seq, why))
    assert [*verification_results(report)] == [f"broken: {name}, line {seq}: {why}"]


class TestCheckpoints:
    def test_another_secret_makes_no_checkpoint(self) -> None:
        report = found(keys=Seal("guessed"))
        assert report.broken == Broken("checkpoints", None, "checkpoint 1 was not sealed with this secret")

    def test_a_seal_for_another_purpose_does_not_fit(self) -> None:
        last = replace(LINES[-1], sealed=SECRET.of("checkpoint", LINES[-1].chain, LINES[-1].hash, LINES[-1].seq))
        assert found([*LINES[:-1], last]).broken == Broken(SYSTEM, 4, "it was not written with this secret")

    def test_one_that_is_gone_is_missed(self) -> None:
        assert found(checkpoints=[SECOND]).broken == Broken("checkpoints", None, "checkpoint 1 is missing")

    def test_cutting_off_the_end_with_its_checkpoint_shows_against_the_anchor_only(self) -> None:
        cut = [line for line in LINES if line.seq <= 2]
        assert found(cut, [FIRST]).finding is Integrity.CONSISTENT
        report = found(cut, [FIRST], ANCHOR)
        assert report.broken == Broken("checkpoints", None, "checkpoint 2 of the anchor is missing")

    def test_a_ledger_written_anew_with_the_secret_is_not_the_one_that_was_told_of(self) -> None:
        anew = checkpoint(None, heads(LINES, 2), NOON + timedelta(hours=3), SECRET)
        report = found(checkpoints=[anew], anchor=read_anchor(FIRST.publish(SECRET), SECRET))
        assert report.broken == Broken("checkpoints", None, "checkpoint 1 is not the one that the anchor tells of")

    def test_each_stands_on_the_one_before(self) -> None:
        loose = checkpoint(None, SECOND.heads, SECOND.at, SECRET)
        report = found(checkpoints=[FIRST, replace(loose, number=2)])
        assert report.broken == Broken("checkpoints", None, "checkpoint 2 does not continue the one before it")

    def test_what_was_told_first_is_the_anchor(self) -> None:
        anew = checkpoint(None, heads(LINES, 2), NOON + timedelta(hours=3), SECRET)
        log = f"{FIRST.publish(SECRET)}\n{anew.publish(SECRET)}"
        assert read_anchor(log, SECRET) == {1: FIRST.sealed}

    def test_what_somebody_else_writes_where_checkpoints_are_published_is_none(self) -> None:
        seal = "ab" * 32
        for forged in (f"checkpoint 1 then {seal}", f"checkpoint 1 then {seal} {seal}", FIRST.publish(Seal("x"))):
            anchor = read_anchor(f"INFO no such tool: {forged}\n{FIRST.publish(SECRET)}", SECRET)
            assert anchor == {1: FIRST.sealed}

    def test_an_anchor_without_checkpoints_says_what_it_should_hold(self) -> None:
        with pytest.raises(Invalid, match="checkpoint <number> <time> <fingerprint>"):
            read_anchor("nothing of the kind", SECRET)


class TestPublicKey:
    """For somebody who holds no secret, a signed checkpoint proves the lines that it covers, and nothing else does."""

    def test_what_no_checkpoint_covers_is_said_to_be_unproven(self) -> None:
        forged = append(LINES[-1].head, SYSTEM, LineKind.APPROVED, {}, Seal("guessed"), at=NOON, salt="x")
        said = "; ".join(verification_results(found([*LINES, forged], keys=PUBLIC)))
        assert "no checkpoint covers 1 line in 1 chain yet, and nothing else proves them;" in said

    def test_a_purge_counts_once_a_signed_checkpoint_covers_it(self) -> None:
        purge = purge_of(LINES[:1], Seal("guessed"))
        lines = [*(without_content(line) if line is LINES[0] else line for line in LINES), purge]
        why = "its content was removed, but not by a purge that a signed checkpoint covers"
        assert found(lines, keys=PUBLIC).broken == Broken("slack-1", 1, why)
        third = checkpoint(SECOND, {SYSTEM: purge.head}, NOON, SECRET, KEY)
        assert found(lines, [FIRST, SECOND, third], keys=PUBLIC).finding is Integrity.CONSISTENT

    @pytest.mark.parametrize(
        ("checkpoints", "why"),
        [
            ([FIRST, replace(SECOND, signature="")], "checkpoint 2 was not signed with this key"),
            ([FIRST, replace(SECOND, signature=FIRST.signature)], "checkpoint 2 was not signed with this key"),
            ([replace(FIRST, signature=""), SECOND], "checkpoint 2 was not signed with this key"),
            ([FIRST, replace(SECOND, heads=FIRST.heads)], "checkpoint 2 was not signed with this key"),
            ([replace(FIRST, signature="é")], "checkpoint 1 was not signed with this key"),
            ([replace(one, signature="") for one in (FIRST, SECOND)], "none is signed"),
            ([], "none is signed"),
        ],
    )
    def test_only_the_private_key_signs(self, checkpoints: Sequence[Checkpoint], why: str) -> None:
        assert found(checkpoints=checkpoints, keys=PUBLIC).broken == Broken("checkpoints", None, why)

    def test_what_was_made_before_there_was_a_key_proves_nothing(self) -> None:
        early = checkpoint(None, heads(LINES, 2), NOON, SECRET)
        late = checkpoint(early, heads(LINES, 9), NOON + timedelta(hours=1), SECRET, KEY)
        report = found(checkpoints=[early, late], keys=PUBLIC)
        assert (report.finding, report.checkpoints, report.loose) == (Integrity.CONSISTENT, 1, 0)

    def test_an_anchor_that_somebody_else_wrote_is_none(self) -> None:
        other = FIRST.publish(SECRET, CheckpointKey("5b" * 32))
        for line in (FIRST.publish(SECRET), other):
            with pytest.raises(Invalid, match="no checkpoint that was signed with this key"):
                read_anchor(line, PUBLIC)

    @pytest.mark.parametrize("text", ["", "5a", "zz" * 32, "5a" * 33])
    def test_a_key_that_is_none(self, text: str) -> None:
        for kind in (CheckpointKey, PublicKeys):
            with pytest.raises(Invalid, match="64 hexadecimal digits"):
                kind(text)


@given(st.data())
def test_no_change_to_a_header_or_content_goes_unnoticed(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(LINES) - 1))
    changes: dict[str, object] = {
        "chain": "elsewhere",
        "seq": 77,
        "at": datetime(2031, 1, 1, tzinfo=UTC),
        "kind": LineKind.DENIED,
        "confirmation": "k2",
        "tool": None,
        "content": "{}",
        "salt": "",
        "digest": "0" * 64,
        "previous": "1" * 64,
        "hash": "2" * 64,
        "sealed": data.draw(st.sampled_from([None, "", "3" * 64, "é"])),
    }
    name = data.draw(st.sampled_from(sorted(changes)))
    lines = list(LINES)
    lines[at] = replace(lines[at], **{name: changes[name]})  # type: ignore[arg-type]  # the fields of Line
    assert found(lines).finding is Integrity.BROKEN


def test_what_was_purged_cannot_be_guessed_back() -> None:
    one, other = (append(Head(), "c", LineKind.ASKED, {"amount": 5}, SECRET, at=NOON, salt=salt) for salt in ("a", "b"))
    assert one.digest != other.digest
    assert without_content(one).content is None
    assert without_content(one).salt is None


class TestExport:
    def line(self, **content: object) -> LedgerLine:
        said: JsonObject = {**content}  # type: ignore[dict-item]  # JSON
        return append(
            Head(), "slack-1", LineKind.DENIED, said, SECRET, at=NOON, salt="s", confirmation="k1", tool="=cmd()"
        )

    def test_a_json_object_a_line(self) -> None:
        row = jsonl_row(self.line(reason="no\nway \ud800"), UNNAMED)
        assert "\n" not in row
        exported = json.loads(row)
        assert exported == export_object(self.line(reason="no\nway \ud800"), UNNAMED)
        assert exported["content"]["reason"] == "no\nway \ud800"
        assert exported["at"] == "2030-01-01T12:00:00.000000+00:00"

    def test_a_csv_row_has_the_columns_of_its_header(self) -> None:
        line = self.line(reason='he said "no", twice', who={"team": "T0ACME", "user": "U0ANNA"}, revision=2)
        header, row = list(csv.reader(io.StringIO(csv_header() + csv_row(line, UNNAMED))))
        assert tuple(header) == COLUMNS
        cells = dict(zip(header, row, strict=True))
        assert (cells["who"], cells["revision"], cells["kind"]) == ("T0ACME/U0ANNA", "2", "denied")
        assert cells["reason"] == 'he said "no", twice'
        assert cells["tool"] == "'=cmd()"

    def test_a_purged_line_is_exported_without_what_it_said(self) -> None:
        line = without_content(self.line(reason="secret"))
        assert export_object(line, UNNAMED)["content"] is None
        assert "secret" not in csv_row(line, UNNAMED)

    @pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\n+1", "＝1", "\0=1"])
    def test_no_cell_is_a_formula(self, cell: str) -> None:
        assert defuse(cell) == f"'{cell}"

    @given(st.text())
    def test_whatever_the_text_a_row_stays_one_row(self, text: str) -> None:
        (row,) = csv.reader(io.StringIO(csv_row(self.line(reason=text), UNNAMED), newline=""))
        cell = row[COLUMNS.index("reason")]
        assert cell.removeprefix("'") == text.removeprefix("'")
        assert not cell.lstrip().startswith(("=", "+", "-", "@"))
