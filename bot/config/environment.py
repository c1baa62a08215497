"""Tokens, secrets and addresses from the environment, and the problems in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from bot.policy.checks import Problem, SettingsError

SLACK = "https://slack.com/api/"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The environment's settings. No `repr` shows a secret."""

    bot_token: SecretStr | None = None
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_url: str = SLACK
    database_url: str | None = field(default=None, repr=False)
    secret: SecretStr | None = None

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Environment:
        def hidden(name: str) -> SecretStr | None:
            return SecretStr(env[name]) if env.get(name) else None

        problems = _environment_problems(env)
        if problems:
            raise SettingsError(problems)
        return cls(
            bot_token=hidden("SLACK_BOT_TOKEN"),
            app_token=hidden("SLACK_APP_TOKEN"),
            signing_secret=hidden("SLACK_SIGNING_SECRET"),
            api_url=(env.get("SLACK_API_URL") or SLACK).rstrip("/") + "/",
            database_url=env.get("DATABASE_URL") or None,
            secret=hidden("ADK_CONFIRM_SECRET"),
        )


def _environment_problems(env: Mapping[str, str]) -> list[Problem]:
    problems: list[Problem] = []
    for name, prefix, wanted in (("SLACK_BOT_TOKEN", "xapp-", "xoxb-…"), ("SLACK_APP_TOKEN", "xoxb-", "xapp-…")):
        if (env.get(name) or "").startswith(prefix):
            problems.append(Problem(name, f"must be the {wanted} token; this is the {prefix}… one"))
    if (url := env.get("SLACK_API_URL")) and not re.match(r"https?://\S+$", url):
        problems.append(Problem("SLACK_API_URL", f'must be an address such as "{SLACK}", not "{url}"'))
    if (secret := env.get("ADK_CONFIRM_SECRET")) and len(secret) < 16:
        problems.append(
            Problem("ADK_CONFIRM_SECRET", "must have at least 16 characters; use 32 random ones: openssl rand -hex 32")
        )
    return problems


def environment_warnings(environment: Environment) -> Iterator[Problem]:
    if environment.secret is None:
        what = (
            "is not set, so approvals and the ledger are signed with a Slack secret. If that changes, they no longer "
            "verify. Set it"
        )
        yield Problem("ADK_CONFIRM_SECRET", what)
