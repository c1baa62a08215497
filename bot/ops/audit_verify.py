"""`adk-confirm audit verify`: checks that nobody changed the ledger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from adk_confirm.blocks.text import visible
from adk_confirm.bot.audit.checkpoints import PublicKeys, read_anchor
from adk_confirm.bot.audit.verification import Integrity, Report
from adk_confirm.bot.ops.command import CommandLine, options, paint, progress
from adk_confirm.bot.store.audit_log import LineFilter, Listener, count_lines, verify_ledger
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.tables import belongs_to


def _read(ctx: click.Context, _: click.Parameter, name: str | None) -> str | None:
    """Reads the file, or standard input, while the command line is read: Ctrl-C ends that at once."""
    if name is None or ctx.resilient_parsing:
        return None
    try:
        if name != "-":
            return Path(name).read_text(encoding="utf-8", errors="replace")
        if sys.stdin.isatty():
            print("Paste the checkpoint lines, and end with Ctrl-D.", file=sys.stderr, flush=True)
        return sys.stdin.read()
    except OSError as error:
        said = f"{name} can't be read as an anchor: {error.strerror or error}. "
        raise Invalid(f"{said}Name the file that keeps the checkpoint lines.") from error


ANCHOR = click.option(
    "--anchor",
    metavar="FILE",
    callback=_read,
    help="The checkpoint lines that you keep elsewhere; - for standard input.",
)
NOT_SEALED = "this is not the store's secret, or the store was changed"
SET_IT = (
    "Set ADK_CONFIRM_SECRET to what it was (or the SLACK_SIGNING_SECRET or SLACK_BOT_TOKEN that the service used "
    "instead). To change the secret, set the old one as ADK_CONFIRM_SECRET_ACCEPTED."
)
PUBLIC_KEY = click.option(
    "--public-key",
    "public_keys",
    metavar="KEY",
    multiple=True,
    help="Verify with the public key of the checkpoints, without the secret. Again for an older key.",
)


@click.command()
@ANCHOR
@PUBLIC_KEY
@options(json=True)
async def verify(call: CommandLine, anchor: str | None, public_keys: tuple[str, ...]) -> int:
    """Check that nobody changed the ledger. The exit code is 1 if somebody did.

    This takes the secret, or the public key alone: then only what signed checkpoints cover is proven.
    """
    async with call.reading() as database:
        report = await verified(call, database, anchor, public_keys)
        known = bool(public_keys) or await database.read(belongs_to, call.seal)
    first, *more = map(visible, verification_results(report))
    verdict = [paint("OK: no change was found", "green"), first] if report.broken is None else [paint(first, "red")]
    if report.broken is not None and not known:  # a store that verifies is ours, whatever its owner's mark says
        first, more = first.removeprefix("broken: ").removeprefix("checkpoints: "), [SET_IT]
        verdict = [paint(f"Not checked: {NOT_SEALED}", "red"), first]
    call.tell({**asdict(report), "said": [first, *more]}, "\n  ".join((*verdict, *more)))
    return 0 if report.broken is None else 1


async def verified(
    call: CommandLine,
    database: Database,
    anchor: str | None = None,
    public_keys: tuple[str, ...] = (),
    begin: Callable[[], Listener | None] = lambda: None,
) -> Report:
    """Verifies the ledger. `begin` makes the listener for its lines: a new one if all has to be read again."""
    proof = PublicKeys(*public_keys) if public_keys else call.seal
    known = None if anchor is None else read_anchor(anchor, proof)
    with progress("Verifying", await database.read(count_lines, LineFilter())) as more:
        return await database.read(lambda tx: verify_ledger(tx, proof, known, more, begin()))


def verification_results(report: Report) -> Iterator[str]:
    """What `audit verify` says, one sentence a line."""
    broken = report.broken
    if broken is not None:
        yield f"broken: {broken.chain}{f', line {broken.seq}' if broken.seq else ''}: {broken.why}"
        return
    size = _lines_of(report.lines, report.chains)
    if report.purged:
        size += f", {report.purged} of them purged"
    if report.finding is Integrity.UNTAMPERED:
        yield f"untampered up to checkpoint {report.anchored}: {_lines_of(report.vouched, report.vouched_chains)}"
        if report.vouched < report.lines:
            yield f"consistent: {size} in all"
        if report.later:
            yield f"the anchor does not know {_count(report.later, 'later checkpoint')}"
    else:
        yield f"consistent: {size}" if report.lines else "empty: no lines, so nothing to check"
    if report.loose:
        nothing = ", and nothing else proves them" if report.by_key else ""
        which = "them" if report.loose == report.lines else _lines_of(report.loose, report.loose_chains)
        yield f"no checkpoint covers {which} yet{nothing}"
    if report.finding is not Integrity.UNTAMPERED:
        yield "only an anchor (--anchor FILE) shows that none were cut off"


def _lines_of(lines: int, chains: int) -> str:
    return f"{_count(lines, 'line')} in {_count(chains, 'chain')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
