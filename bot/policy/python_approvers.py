"""`python:` approvers: functions of the operator's own that get the call and name people. They run in a thread, with a
time limit.

If a function fails, it names nobody, and the reason is kept. A thread that hangs is abandoned; only a few may hang.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Collection
from concurrent.futures import Future
from inspect import isawaitable

from adk_confirm.bot.policy.approvers import Unresolved
from adk_confirm.bot.policy.model import CallFacts
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.target import load_object

log = logging.getLogger(__name__)

TIME_LIMIT = 10.0
_MOST_AT_ONCE = 16
_USER = re.compile(r"[UW][A-Z0-9_]+")


class PythonApprovers:
    def __init__(self, *, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit
        self._running = threading.Semaphore(_MOST_AT_ONCE)

    async def ask(self, target: str, call: CallFacts, named: Collection[str]) -> frozenset[str] | Unresolved:
        """The user ids that the function at `module:name` names for this call. `named`: the functions that the settings
        file names now. No other one is loaded, whoever names it."""
        what = f"python:{target}"
        if target not in named:
            return Unresolved(what, "no policy in the settings file names it any more")
        try:
            async with asyncio.timeout(self._time_limit):
                answer = await self._answer(target, json.loads(canonical(call.for_python())))
        except TimeoutError:
            return Unresolved(what, f"it did not answer within {self._time_limit:g} s")
        except ConfirmError as error:
            return Unresolved(what, str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            log.exception("%s failed", what)
            return Unresolved(what, f"it raised {type(error).__name__}")
        return _check_answer(what, answer)

    async def _answer(self, target: str, call: JsonObject) -> object:
        """Calls the function in a daemon thread, which does not keep the process from ending."""
        if not self._running.acquire(blocking=False):
            raise ConfirmError("too many earlier calls of such functions still hang")
        future: Future[object] = Future()

        def run() -> None:
            try:
                if future.set_running_or_notify_cancel():
                    function = load_object(target)
                    if not callable(function):
                        raise ConfirmError("it is not a function")
                    future.set_result(function(call))
            except BaseException as error:  # noqa: BLE001 - passed on to whoever awaits the future
                future.set_exception(error)
            finally:
                self._running.release()

        threading.Thread(target=run, name="adk-confirm-python-approver", daemon=True).start()
        answer = await asyncio.wrap_future(future)
        return await answer if isawaitable(answer) else answer


def _check_answer(what: str, answer: object) -> frozenset[str] | Unresolved:
    if not isinstance(answer, (list, tuple, set, frozenset)):
        kind = type(answer).__name__
        return Unresolved(what, f'it returned {kind}; a list of user ids is needed, such as ["U0LEAD"]')
    odd = [item for item in answer if not isinstance(item, str) or not _USER.fullmatch(item)]
    if odd:
        return Unresolved(what, f'it returned {odd[0]!r:.40} among its user ids; those look like "U0LEAD"')
    return frozenset(answer)
