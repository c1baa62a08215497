"""Reads the policies again when the file changes while the service runs, so that barring somebody takes effect at once.

A file with mistakes changes nothing, and the log says what is wrong. New calls get the new policies. A waiting call
keeps its policy until somebody runs `adk-confirm reapply`, but people whom the file bars now can't decide it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from adk_confirm.bot.config.settings import Rules, Settings, load_settings, serving_problems
from adk_confirm.bot.policy.checks import SettingsError
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.runtime.jsontypes import JsonObject, canonical

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks at the file. It is read once it has stayed the same from one look to the next."""

_Mark = tuple[int, int, int] | None
_NOT_READ = (-1, -1, -1)


class PolicyReloader:
    """Applies the file's policies when it changes. `told` gets the digest in force, and what is wrong with the file."""

    def __init__(
        self,
        file: Path,
        env: Mapping[str, str],
        rules: Rules,
        told: Callable[[str, str | None], None] = lambda _digest, _trouble: None,
    ) -> None:
        self._file, self._env, self._rules, self._told = file, env, rules, told
        self._other_tables: JsonObject | None = None
        self._known: _Mark = _NOT_READ  # so it is read once at first: it may have changed since the service read it

    async def run(self) -> None:
        """Watches the file until it is cancelled."""
        seen = _mark(self._file)
        while True:
            before, seen = seen, _mark(self._file)
            if before == seen != self._known:
                await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Reads the policies from the file now."""
        self._known = _mark(self._file)
        try:
            settings = await asyncio.to_thread(self._read)
        except SettingsError as error:
            log.error("%s has changed and has mistakes; the policies stay as they were. %s", self._file, error)
            self._tell(f"{self._file} has mistakes")
            return
        others = settings.model_dump(mode="json", exclude={"policy", "environment", "policy_lines"})
        if self._other_tables is None:
            self._other_tables = others
        trouble = None
        if others != self._other_tables:
            trouble = f"{self._file} has changed outside its policies"
            log.warning("%s: that holds once the service is started again", trouble)
        self._tell(trouble, settings.policies)
        if settings.policies.fingerprints == self._rules.policies.fingerprints:
            return
        for warning in settings.warnings:
            log.warning("%s", warning)
        self._rules.policies = settings.policies
        log.warning(
            "%s has changed: new calls come under its policies from now on, and people whom it bars can't decide any "
            "more. `adk-confirm reapply` puts waiting calls under it.",
            self._file,
        )

    def _tell(self, trouble: str | None, policies: Policies | None = None) -> None:
        rules = (policies or self._rules.policies).fingerprints
        digest = sha256(canonical([self._other_tables, *rules]).encode()).hexdigest()[:12]
        self._told(digest, trouble)

    def _read(self) -> Settings:
        settings = load_settings(self._file, self._env)
        if problems := serving_problems(settings, self._env):
            raise SettingsError(problems)
        return settings


def _mark(file: Path) -> _Mark:
    """A mark of the file that changes when the file is changed or replaced."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
