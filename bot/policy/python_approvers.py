"""`python:` approvers: functions of the operator's own that get the call and name people. They run in threads of their
own, with a time limit: `runtime.fence`.

If a function fails, it names nobody, and the reason is kept. Votes have threads of their own, so that no list keeps
them waiting.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection

from adk_confirm.bot.policy.approvers import Unresolved
from adk_confirm.bot.policy.policies import CallFacts
from adk_confirm.runtime.errors import Busy, ConfirmError
from adk_confirm.runtime.fence import Failed, Threads, TooLong
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.target import load_object

log = logging.getLogger(__name__)

TIME_LIMIT = 10.0
_MOST_AT_ONCE, _TURN, _AGAIN = 16, 20.0, 1.0
_USER = re.compile(r"[UW][A-Z0-9_]+")


class PythonApprovers:
    def __init__(self) -> None:
        self._for_votes, self._for_lists = (
            Threads("adk-confirm-python-approver", most=_MOST_AT_ONCE, seconds=TIME_LIMIT, turn=_TURN) for _ in range(2)
        )

    async def ask(
        self, target: str, call: CallFacts, named: Collection[str], *, listing: bool = False
    ) -> frozenset[str] | Unresolved:
        """The user ids that the function at `module:name` names for this call. `named`: the functions that the settings
        file names now. No other one is loaded, whoever names it."""
        what = f"python:{target}"
        if target not in named:
            return Unresolved(what, "no policy in the settings file names it any more")
        facts, threads = json.loads(canonical(call.for_python())), self._for_lists if listing else self._for_votes

        def names() -> object:
            function = load_object(target)
            if not callable(function):
                raise ConfirmError("it is not a function")
            return function(facts)

        try:
            return await threads.run(names, lambda given: _check_answer(what, given))
        except Busy as busy:
            return Unresolved(what, str(busy), _AGAIN)
        except TooLong:
            return Unresolved(what, f"it did not answer within {threads.seconds:g} s")
        except Failed as failed:
            if isinstance(failed.error, ConfirmError):
                return Unresolved(what, str(failed))
            log.error("%s failed", what, exc_info=failed.error)
            return Unresolved(what, f"it raised {type(failed.error).__name__}")


def _check_answer(what: str, answer: object) -> frozenset[str] | Unresolved:
    if not isinstance(answer, (list, tuple, set, frozenset)):
        kind = type(answer).__name__
        return Unresolved(what, f'it returned {kind}; a list of user ids is needed, such as ["U0LEAD"]')
    odd = [item for item in answer if not isinstance(item, str) or not _USER.fullmatch(item)]
    if odd:
        return Unresolved(what, f'it returned {odd[0]!r:.40} among its user ids; those look like "U0LEAD"')
    return frozenset(map(str, answer))
