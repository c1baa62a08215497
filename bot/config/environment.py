"""Tokens, secrets and addresses from the environment, and the problems in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from bot.config.token_cipher import HOW_TO_MAKE_ONE, BadKey, TokenCipher
from bot.config.token_cipher import KEY as TOKEN_KEY
from bot.policy.problems import Problem, SettingsError

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
    client_id: str | None = None
    client_secret: SecretStr | None = None
    token_key: SecretStr | None = None
    redirect_uri: str | None = None

    @property
    def several(self) -> bool:
        """Whether workspaces install the app themselves. If not, the app serves the one whose token is set."""
        return self.bot_token is None and (self.client_id is not None or self.client_secret is not None)

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
            client_id=env.get("SLACK_CLIENT_ID") or None,
            client_secret=hidden("SLACK_CLIENT_SECRET"),
            token_key=hidden(TOKEN_KEY),
            redirect_uri=env.get("SLACK_REDIRECT_URI") or None,
        )


def installing_problems(slack: Environment) -> Iterator[Problem]:
    """The problems that keep several workspaces from installing the app."""
    for name, value in (("SLACK_CLIENT_ID", slack.client_id), ("SLACK_CLIENT_SECRET", slack.client_secret)):
        if value is None:
            yield Problem(name, "is not set; find it in the app's settings, Basic Information, App Credentials")
    if slack.token_key is None:
        yield Problem(TOKEN_KEY, f"is not set; it encrypts the workspaces' tokens. Make one: {HOW_TO_MAKE_ONE}")
    else:
        try:
            TokenCipher(slack.token_key.get_secret_value())
        except BadKey as error:
            yield Problem(TOKEN_KEY, str(error))


def _environment_problems(env: Mapping[str, str]) -> list[Problem]:
    problems: list[Problem] = []
    for name, prefix, wanted in (("SLACK_BOT_TOKEN", "xapp-", "xoxb-…"), ("SLACK_APP_TOKEN", "xoxb-", "xapp-…")):
        if (env.get(name) or "").startswith(prefix):
            problems.append(Problem(name, f"must be the {wanted} token; this is the {prefix}… one"))
    if (url := env.get("SLACK_API_URL")) and not re.match(r"https?://\S+$", url):
        problems.append(Problem("SLACK_API_URL", f'must be an address such as "{SLACK}", not "{url}"'))
    if (url := env.get("SLACK_REDIRECT_URI")) and not re.match(r"https?://\S+$", url):
        what = f'must be an address such as "https://your.host/slack/oauth_redirect", not "{url}"'
        problems.append(Problem("SLACK_REDIRECT_URI", what))
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
    if environment.bot_token is not None and environment.client_id is not None:
        what = "is not used: SLACK_BOT_TOKEN is set, for one workspace. Remove that one to let several install the app"
        yield Problem("SLACK_CLIENT_ID", what)
