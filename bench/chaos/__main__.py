"""`make chaos`: makes a plan from a seed, carries it out, repairs everything, and then checks every promise."""

from __future__ import annotations

import argparse
import asyncio
import pprint
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench.chaos.checks import check
from bench.chaos.collecting import collect, effects
from bench.chaos.history import History, NewWork
from bench.chaos.office import Office, office
from bench.chaos.plan import Errand, Plan, make_plan, rehearsal
from bench.chaos.replicas import NotReady
from bench.chaos.report import lines, table_of_faults, table_of_work, verdict
from bench.chaos.troubles import Troubles

_LEASE = 6.0
_GOES_HOME = 30.0
_QUIET_WITHIN = 180.0
"""Seconds, plus as many as the faults lasted: cards catch up at Slack's pace, fifty updates a minute."""
_NEW_WORK_WITHIN = 20.0
_ROUNDS = 6
_GLANCE = 0.05


async def run(plan: Plan, folder: Path) -> tuple[History, Troubles, Office]:
    async with office(folder, lease=_LEASE) as at:
        troubles = Troubles(at)
        _tell(f"{len(plan.errands)} threads, {len(plan.calls)} calls, {len(plan.breaks)} troubles")
        async with asyncio.TaskGroup() as group:
            group.create_task(at.people.live(plan))
            group.create_task(troubles.strike(plan))
        await troubles.heal()
        _tell("all is well again; people clear their desks")
        await at.people.finish(_GOES_HOME)
        owed = await _decide_the_rest(at, plan)
        _tell("quiet; new work begins")
        renewed = await asyncio.gather(*(_do_new_work(at, rehearsal(number)) for number in range(len(at.replicas))))
        owed += await at.quiet(_QUIET_WITHIN + plan.seconds)
        history = await collect(at, tuple(troubles.happened), tuple(owed), tuple(renewed))
        return history, troubles, at


async def _decide_the_rest(at: Office, plan: Plan) -> list[str]:
    """Decides every confirmation that is still waiting."""
    owed: list[str] = []
    for _ in range(_ROUNDS):
        owed = await at.quiet(_QUIET_WITHIN + plan.seconds)
        if owed or not await at.people.decide_open_calls(plan):
            return owed
    return [*owed, "people's words did not bring everything to an end"]


async def _do_new_work(at: Office, errand: Errand) -> NewWork:
    (call,) = errand.calls
    began = time.monotonic()
    working = asyncio.create_task(at.people.runs(errand))
    card = await at.people.sees(call.ticket, _NEW_WORK_WITHIN)
    shown = time.monotonic() - began if card is not None else None
    await working
    clicked = time.time()
    while time.time() - clicked < _NEW_WORK_WITHIN:
        done = [one for one in effects(at) if one.ticket == call.ticket]
        if done:
            return NewWork(call.ticket, shown, max(0.0, done[0].at - clicked))
        await asyncio.sleep(_GLANCE)
    return NewWork(call.ticket, shown, None)


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description="three replicas under random faults")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long things go wrong, default: %(default)g")
    parser.add_argument("--seed", type=int, help="the same seed makes the same plan; default: a new one")
    options = parser.parse_args()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    plan = make_plan(seed, options.seconds, lease=_LEASE)
    print(f"seed {seed}: {options.seconds:g} seconds", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="adk-confirm-chaos-"))
    async with asyncio.timeout(5 * options.seconds + 900):
        history, troubles, at = await run(plan, folder)
    findings = check(history)
    exits = [one for replica in at.replicas for one in replica.exits]
    tables = table_of_faults(plan, troubles.met, exits), table_of_work(history)
    print(f"\n{lines([*tables, verdict(plan, history, findings)])}", flush=True)
    if findings:
        (folder / "history.txt").write_text(pprint.pformat(history, width=160), encoding="utf-8")
        print(f"The replicas' logs and all that was seen are in {folder}.", flush=True)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except NotReady as error:
        sys.exit(str(error))
    except (asyncio.CancelledError, KeyboardInterrupt):
        sys.exit("Stopped before its end: this says nothing about the promises.")
