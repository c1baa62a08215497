"""The process that `bounded` starts. It runs as a script, and imports nothing of ours except the file with the
check."""

from __future__ import annotations

import importlib.util
import json
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

Check = Callable[..., object]


def main(path: str, file: str, seconds: str, memory: str) -> None:
    sys.path[:] = json.loads(path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent; this process ends with it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # nobody else may read the arguments
    asked = socket.socket(fileno=0)
    check = _load(file)
    for args in asked.makefile("rb"):
        asked.sendall(_run_limited(check, args, float(seconds), int(memory)) + b"\n")


def _load(file: str) -> Check:
    spec = importlib.util.spec_from_file_location("bounded_check", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look for it there
    spec.loader.exec_module(module)
    check: Check = module.check
    return check


def _run_limited(check: Check, args: bytes, seconds: float, memory: int) -> bytes:
    """Sets a limit of CPU time, after which the kernel ends this process. Too much memory or stack may end it as
    well."""
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    _limit_memory(memory, unlimited[1])
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        answer = json.dumps({"value": check(*json.loads(args))})
    except (MemoryError, RecursionError, SystemError):  # the last is Python's own, where it lacks the memory to say so
        answer = json.dumps({"over": True})
    except Exception as error:  # noqa: BLE001  (a library's, over input that nobody has seen)
        answer = json.dumps({"broke": f"{type(error).__name__}: {error}"[:500]})
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
    return answer.encode()


def _limit_memory(memory: int, hard: int) -> None:
    """Limits memory beyond what the process has already. If the kernel does not support that, only the time is
    limited."""
    with suppress(OSError, ValueError), open("/proc/self/statm") as statm:
        has = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + memory, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
