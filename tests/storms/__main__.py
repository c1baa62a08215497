"""`make storms`: storms in virtual time, one seed after another, until the time is over or one breaks a promise.

python -m tests.storms                    60 seconds of storms
python -m tests.storms 84 12 --said       these, and all that happened in them
python -m tests.storms --slip "a lease"   with this slip of tests/mutants in the code: they should find it
python -m tests.storms --power            each slip of power.txt in its turn
"""

from __future__ import annotations

import argparse
import gc
import importlib.machinery
import mmap
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from bench.mutants import ROOT, Slip, mutate
from bench.mutants import read as read_slips

_JOBS = 2
_LONGEST, _ENDLESS = 20.0, "every step ends"
"""Seconds of CPU time that a storm may take. A storm of thousands of steps takes one; a step that loops takes all."""


def main() -> int:
    options = _options()
    if options.power:
        return _tries_all(options)
    slip = _chosen(options.slip) if options.slip else None
    if slip is not None:
        _make(slip)
    with _ready(postgres=options.postgres) as storms:
        return _run(storms, options, slip)


def _run(storms: Any, options: Any, slip: Slip | None) -> int:
    if options.seeds:
        return _run_these(storms, options)
    began = time.monotonic()
    count, met, commits, failed = _run_many(storms, options)
    took, spent = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{count} storms in {took:.0f} s, with {met} faults and {commits} commits", flush=True)
    if failed is None:
        print("Every promise held." if slip is None else f"NOT FOUND: {slip.known_by}")
        return 0 if slip is None else 1
    if slip is not None:
        busy = f"{spent.ru_utime + spent.ru_stime:.0f} s of CPU time, seed {failed[0]}"
        print(f"found: {slip.known_by}: {busy}: {', '.join(failed[1])}")
        return 0
    if _ENDLESS in failed[1]:
        print(f"Seed {failed[0]} broke: {_ENDLESS}. It never ends, so look at it yourself: --said")
        return 1
    print(f"Seed {failed[0]} broke: {', '.join(failed[1])}. The shortest storm that does:", flush=True)
    _print_shortest(storms, failed[0], options)
    return 1


def _options() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.storms")
    parser.add_argument("seeds", nargs="*", type=int, help="run these, and nothing else")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, default: %(default)g")
    parser.add_argument("--storms", type=int, default=sys.maxsize, help="how many each process runs at most")
    parser.add_argument("--seed", type=int, help="the first one; default: chosen by chance")
    parser.add_argument("--faults", help="numbers of the only faults that happen, such as 0,3; with one seed")
    parser.add_argument("--requests", help="and of the only requests that people make")
    parser.add_argument("--foreign", action="store_true", help="servers of others in all, not in a quarter")
    parser.add_argument("--slip", help="words of a slip in tests/mutants, which is made in the code first")
    parser.add_argument("--power", action="store_true", help="try each slip of power.txt, one after another")
    parser.add_argument("--said", action="store_true", help="print all that happened")
    parser.add_argument("--postgres", action="store_true", help="on a real PostgreSQL, which is slower")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="processes, default: %(default)s")
    return parser.parse_args()


@contextmanager
def _ready(*, postgres: bool) -> Iterator[Any]:
    """The simulator. The product is imported here, after its clocks and dice were replaced."""
    from tests.storms import virtual

    made: dict[str, Any] = {}
    virtual.install(lambda: made["storms"].LOOP if made else None)
    from tests.storms import storm

    made["storms"] = storm
    with ExitStack() as stack:
        if postgres:
            from tests.storms.postgres import PostgresStore, served

            storm.EMPTY = partial(PostgresStore, stack.enter_context(served()))
        else:
            storm.EMPTY = storm.in_memory()
        yield _warm(storm)


def _warm(storm: Any) -> Any:
    storm.quiet_python()
    storm.run(replace(storm.make_storm(0), faults=()))  # what is imported or made at the first use is there then
    gc.collect()
    gc.freeze()
    return storm


def _run_these(storms: Any, options: Any) -> int:
    broken, said = 0, options.said
    for seed in options.seeds:
        storm = storms.make_storm(seed, foreign=options.foreign)
        faults, errands = _these(storm.faults, options.faults), _these(storm.plan.errands, options.requests)
        outcome = storms.run(replace(storm, faults=faults, plan=replace(storm.plan, errands=errands)), tell=said)
        broken += bool(outcome.findings)
        how = "; ".join(f"{one.promise}: {one.what} {one.ticket}" for one in outcome.findings) or "every promise held"
        if said:
            print("\n".join([*map(str, outcome.storm.faults), "", *outcome.said]))
        print(
            f"seed {seed}: {outcome.steps} steps, {outcome.commits} commits, trace {outcome.trace:x}: {how}", flush=True
        )
    return 1 if broken else 0


def _these(things: Sequence[Any], numbers: str | None) -> tuple[Any, ...]:
    return tuple(things) if numbers is None else tuple(things[int(one)] for one in numbers.split(",") if one)


def _run_many(storms: Any, options: Any) -> tuple[int, int, int, tuple[int, list[str]] | None]:
    """Runs until somebody finds something. Each process has every n-th seed."""
    first = int.from_bytes(os.urandom(3)) if options.seed is None else options.seed
    print(f"from seed {first} on", flush=True)
    pipes, lowest = [], mmap.mmap(-1, 8)
    lowest[:] = sys.maxsize.to_bytes(8)
    for job in range(options.jobs):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            code = 1
            try:
                with os.fdopen(writing, "w") as out:
                    _run_some(storms, first + job, options, out, lowest)
                code = 0
            except Exception:  # noqa: BLE001  (this process ends here)
                traceback.print_exc()
            os._exit(code)
        os.close(writing)
        pipes.append(reading)
    count, met, commits = 0, 0, 0
    failed: tuple[int, list[str]] | None = None
    for reading in pipes:
        with os.fdopen(reading) as given:
            for line in given:
                seed, faults, stored, promises = line.rstrip("\n").split("\t")
                count, met, commits = count + 1, met + int(faults), commits + int(stored)
                if promises and (failed is None or int(seed) < failed[0]):
                    failed = int(seed), promises.split("|")
        if os.wait()[1] != 0:
            sys.exit("The simulator itself failed.")
    return count, met, commits, failed


def _run_some(storms: Any, seed: int, options: Any, out: Any, lowest: mmap.mmap) -> None:
    """`lowest`: the seed of the first storm that broke a promise, in any process. None after it is run."""

    def found(promises: str, faults: int = 0, commits: int = 0) -> None:
        out.write(f"{seed}\t{faults}\t{commits}\t{promises}\n")
        out.flush()
        if promises:
            lowest[:] = min(seed, int.from_bytes(lowest[:])).to_bytes(8)

    def is_endless(*_: object) -> None:
        found(_ENDLESS)
        os._exit(0)

    signal.signal(signal.SIGVTALRM, is_endless)
    clock = time.process_time if options.slip else time.monotonic  # how busy the machine is says nothing of a slip
    until, last = clock() + options.seconds, seed + options.jobs * options.storms
    while clock() < until and seed < min(last, int.from_bytes(lowest[:])):
        signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
        outcome = storms.run(storms.make_storm(seed, foreign=options.foreign))
        found("|".join(sorted(outcome.promises)), outcome.met, outcome.commits)
        if outcome.findings:
            return
        seed += options.jobs


def _print_shortest(storms: Any, seed: int, options: Any) -> None:
    whole = storms.make_storm(seed, foreign=options.foreign)
    outcome = storms.shortest(whole)
    plan = outcome.storm.plan
    for errand in plan.errands:
        print(f"  {errand.at:6.3f} s  {errand.asker} in #{errand.channel}: {', '.join(map(str, errand.calls))}")
    for fault in outcome.storm.faults:
        print(f"  {fault}")
    for one in outcome.findings:
        print(f"{one.promise}: {one.what} {one.ticket}")
    faults = ",".join(str(whole.faults.index(one)) for one in outcome.storm.faults)
    requests = ",".join(str(whole.plan.errands.index(one)) for one in plan.errands)
    print("Again, with all that happens:")
    more = (" --foreign" if options.foreign else "") + (" --postgres" if options.postgres else "")
    print(f"python -m tests.storms {seed}{more} --faults {faults or ','} --requests {requests or ','} --said")


# Slips


def power_list() -> list[str]:
    """Words of each slip that the storms are to find."""
    lines = (Path(__file__).parent / "power.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _tries_all(options: Any) -> int:
    slips, found = power_list(), 0
    for words in slips:
        given = ["--slip", words, "--seed", str(options.seed or 0), "--seconds", str(options.seconds)]
        ran = subprocess.run([sys.executable, "-m", "tests.storms", *given], capture_output=True, text=True, cwd=ROOT)
        found += ran.returncode == 0
        print(ran.stdout.strip().rpartition("\n")[2], flush=True)
    print(f"{found} of {len(slips)} found")
    return 0 if found >= 0.9 * len(slips) else 1


def _chosen(words: str) -> Slip:
    found = [slip for slip in read_slips() if words in slip.known_by]
    if len(found) != 1:
        sys.exit(f"{len(found)} slips have the words {words!r}: say more of one.")
    return found[0]


def _make(slip: Slip) -> None:
    """The code is read with the slip in it, in this process alone."""
    file, text = mutate(slip.change)
    target, as_it_is = (ROOT / file).resolve(), importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if Path(path).resolve() == target:
            return compile(text, path, "exec", dont_inherit=True)
        return as_it_is(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # or sets of texts would have another order in each process
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.storms", *sys.argv[1:]])
    sys.exit(main())
