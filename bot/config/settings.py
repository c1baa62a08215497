"""Reads `adk-confirm.toml` and the environment, and reports all problems in them at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from pprint import saferepr
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from adk_confirm.bot.audit.checkpoints import CheckpointKey
from adk_confirm.bot.policy.approvers import LONGEST_CALLER, Approver, ApproverField, ApproverKind
from adk_confirm.bot.policy.checks import Problem, SettingsError, from_pydantic, policy_problems, policy_warnings
from adk_confirm.bot.policy.durations import Duration
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.runtime.store.lease import TERM
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.telemetry.logs import Form, Level

__all__ = ["Settings", "SettingsError", "load_settings", "parse_settings", "serving_problems"]

DEFAULT_FILE = "adk-confirm.toml"
LEASE = timedelta(seconds=TERM)


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _matching(pattern: str, wanted: str) -> AfterValidator:
    """Takes a text that this pattern matches. `wanted`: what the error about any other text says that it must be."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f'must be {wanted}, not "{text}"')
        return text

    return AfterValidator(check)


def _without_credentials(url: str) -> str:
    if re.match(r"[^/]*//[^/]*@", url):
        raise ValueError("must have no user and password in it, since addresses are logged: set token_env or headers")
    return url


def _sendable(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII) or not value.isprintable():
            raise ValueError(f'"{name}" can\'t be sent: a name has letters, digits and dashes, a value one line')
    return headers


def _token(prefix: str, *, other: str) -> AfterValidator:
    def check(token: SecretStr) -> SecretStr:
        value = token.get_secret_value()
        if value.startswith(other):
            raise ValueError(f"must be the {prefix}… token; this is the {other}… one")
        if not re.fullmatch(r"[!-~]*", value):
            raise ValueError(f"must be the {prefix}… token and nothing else; there are other characters in it")
        return token

    return AfterValidator(check)


def _long(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 16:
        raise ValueError("must have at least 16 characters; use 32 random ones: openssl rand -hex 32")
    return secret


def _key(key: SecretStr) -> SecretStr:
    if not re.fullmatch("[0-9a-fA-F]{64}", key.get_secret_value()):
        raise ValueError("must be 64 hexadecimal digits: openssl rand -hex 32")
    return key


def _variable(name: str, default: str | None = None) -> Any:
    return Field(default, validation_alias=name, repr=False)


SLACK = "https://slack.com/api/"
_API = Annotated[
    str,
    _matching(r"https?://\S+", f'an address such as "{SLACK}"'),
    AfterValidator(lambda url: f"{url.rstrip('/')}/"),
]
_WITHOUT_SLASH = AfterValidator(lambda url: url.rstrip("/"))
_SERVER = Annotated[
    StrictStr,
    AfterValidator(_without_credentials),
    _matching(r"https?://[^\s/]+(/\S*)?", 'an address such as "http://adk:8000"'),
    _WITHOUT_SLASH,
]
_CHANNEL = Annotated[StrictStr, _matching(r"[CG][A-Z0-9_]+", 'the channel\'s id, such as "C0AUDIT"')]
_TARGET = Annotated[
    StrictStr,
    _matching(
        r".*/.*|[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*",
        'a module and a name, such as "my_agents.oncall:agent", or a folder, such as "./hr"',
    ),
]
_SERVICES = ("artifact_service", "memory_service", "credential_service")


class AgentSettings(_Table):
    """Either `target`, an agent in this process, or `url` and `app`, an agent on any ADK server."""

    target: _TARGET | None = None
    url: _SERVER | None = None
    app: StrictStr | None = None
    headers: Annotated[dict[StrictStr, StrictStr], AfterValidator(_sendable)] = Field(default_factory=dict, repr=False)
    token_env: StrictStr | None = None
    secret_env: StrictStr | None = None  # our plugin on the server knows this secret too; answers are signed with it
    timeout: Duration = timedelta(minutes=10)
    artifact_service: StrictStr | None = None  # google-adk's, for an agent in this process; so are the next two
    memory_service: StrictStr | None = None
    credential_service: StrictStr | None = None

    @property
    def services(self) -> dict[str, str]:
        """The services of google-adk that the settings file names."""
        return {name: found for name in _SERVICES if (found := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _require_target_or_url(self) -> AgentSettings:
        if (self.target is None) == (self.url is None):
            both = self.target is not None
            raise ValueError(f"must have target or url, {'not both' if both else 'and has neither'}")
        if self.url is not None and self.app is None:
            raise ValueError('must name the app as well as the url, as in app = "oncall"')
        only_remote = ("app", "headers", "token_env", "secret_env", "timeout")
        remote = [name for name in only_remote if name in self.model_fields_set]
        if self.target is not None and remote:
            raise ValueError(f"can have {' and '.join(remote)} only with a url, not with a target")
        if self.url is not None and self.services:
            raise ValueError(f"must have {' and '.join(self.services)} only with a target; a server has its own")
        return self


_STORE = r"(sqlite|postgresql)(\+\w+)?://.*"
_STORE_SHAPE = '"sqlite:///adk-confirm.db" or "postgresql://user@host/name"'


class Store(_Table):
    url: Annotated[StrictStr, _matching(_STORE, _STORE_SHAPE)] = Field("sqlite:///adk-confirm.db", repr=False)
    lease: Duration = LEASE

    @field_validator("lease")
    @classmethod
    def _lease(cls, lease: timedelta) -> timedelta:
        if not timedelta(seconds=1) <= lease <= timedelta(minutes=10):
            raise ValueError(
                "must be between 1s and 10m: after that time another process continues the work of one that died"
            )
        return lease


def _store_address(url: str) -> str:
    if not re.match(_STORE, url):
        raise ValueError(f"must be {_STORE_SHAPE}")  # the address may contain a password
    return url


def _address(listen: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(\d{1,5})", listen, re.ASCII)
    if match is None or int(match[2]) > 65_535:
        raise ValueError(f'must be host and port, such as "127.0.0.1:3000", not "{listen}"')
    return listen


MOST_PROMPTS, LONGEST_PROMPT = 4, 300


class Listening(_Table):
    listen: StrictStr

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class Slack(Listening):
    listen: Annotated[StrictStr, AfterValidator(_address)] = "127.0.0.1:3000"
    prompts: tuple[StrictStr, ...] = ()

    @field_validator("prompts")
    @classmethod
    def _prompts(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        if len(prompts) > MOST_PROMPTS:
            raise ValueError(f"must be at most {MOST_PROMPTS} prompts: Slack shows no more")
        if any(not prompt.strip() or len(prompt) > LONGEST_PROMPT for prompt in prompts):
            raise ValueError(f"must be texts of 1 to {LONGEST_PROMPT} characters each")
        return prompts


_SHORT_NAME = Annotated[
    StrictStr,
    _matching(
        rf"[a-z0-9][a-z0-9_-]{{0,{LONGEST_CALLER - 1}}}",
        f'a short name such as "ci": {LONGEST_CALLER} small letters, digits, _ and - at the most',
    ),
]


class CallerSettings(_Table):
    """A program that may ask at the door, and for what."""

    name: _SHORT_NAME
    token_env: StrictStr
    tools: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    channel: _CHANNEL
    asker: ApproverField | None = None  # the person who counts as who asked; the caller itself without one
    waiting: Annotated[StrictInt, Field(ge=1)] = 20
    per_minute: Annotated[StrictInt, Field(ge=1)] = 60

    def may_ask(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    @field_validator("asker")
    @classmethod
    def _asker(cls, asker: Approver | None) -> Approver | None:
        if asker is not None and asker.kind is not ApproverKind.USER:
            raise ValueError(f'must be one person, such as "user:U0LEAD", not "{asker}"')
        return asker


class McpServerSettings(_Table):
    """An MCP server whose tools run here, as `name.tool`, once people have approved. Tools that `free` names run
    without being asked about."""

    name: _SHORT_NAME
    command: tuple[StrictStr, ...] = ()
    env: tuple[StrictStr, ...] = ()  # the variables that the command gets
    url: _SERVER | None = None
    token_env: StrictStr | None = None
    free: tuple[StrictStr, ...] = ()
    preview: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    timeout: Duration = timedelta(minutes=5)

    @model_validator(mode="after")
    def _require_command_or_url(self) -> McpServerSettings:
        if bool(self.command) == (self.url is not None):
            raise ValueError('must have a command, such as ["npx", "server"], or a url, and not both')
        return self


class DoorSettings(Listening):
    """The address at which programs ask, and which programs may."""

    listen: Annotated[StrictStr, AfterValidator(_address)] = "127.0.0.1:3001"
    report_within: Duration = timedelta(hours=1)
    caller: Annotated[tuple[CallerSettings, ...], Field(min_length=1)]
    server: tuple[McpServerSettings, ...] = ()

    @field_validator("caller", "server")
    @classmethod
    def _named_once(cls, named: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({one.name for one in named}) < len(named):
            raise ValueError("must have different names")
        return named

    def named(self, name: str) -> CallerSettings | None:
        return next((one for one in self.caller if one.name == name), None)


class Serve(_Table):
    """How `adk-confirm serve` stops. `drain`: how long runs that have begun may still take."""

    drain: Duration = timedelta()


class Audit(_Table):
    """Where the ledger's checkpoints are posted outside the database, and how often."""

    channel: _CHANNEL | None = None
    checkpoint_every: Duration = timedelta(hours=1)


class WaitingLimits(_Table):
    """How many calls may wait for people at the same time."""

    waiting_per_session: Annotated[StrictInt, Field(ge=1)] = 20
    waiting_per_person: Annotated[StrictInt, Field(ge=1)] = 50  # counted by who asked for the calls


@dataclass
class Rules:
    """What is in force now. Read it each time, because `reload.py` replaces the policies."""

    policies: Policies
    limits: WaitingLimits = field(default_factory=WaitingLimits)


class Log(_Table):
    """How this process writes its log. The level applies to the app's own lines."""

    format: Form = "text"
    level: Level = "info"


class Environment(BaseModel):
    """The environment's tokens, secrets and addresses. No `repr` shows a secret."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    bot_token: Annotated[SecretStr, _token("xoxb-", other="xapp-")] | None = _variable("SLACK_BOT_TOKEN")
    app_token: Annotated[SecretStr, _token("xapp-", other="xoxb-")] | None = _variable("SLACK_APP_TOKEN")
    signing_secret: SecretStr | None = _variable("SLACK_SIGNING_SECRET")
    api_url: _API = _variable("SLACK_API_URL", SLACK)
    database_url: Annotated[str, AfterValidator(_store_address)] | None = _variable("DATABASE_URL")
    listen: Annotated[str, AfterValidator(_address)] | None = _variable("ADK_CONFIRM_LISTEN")
    secret: Annotated[SecretStr, AfterValidator(_long)] | None = _variable("ADK_CONFIRM_SECRET")
    accepted_secret: SecretStr | None = _variable("ADK_CONFIRM_SECRET_ACCEPTED")
    checkpoint_key: Annotated[SecretStr, AfterValidator(_key)] | None = _variable("ADK_CONFIRM_CHECKPOINT_KEY")

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Environment:
        """Reads the variables, each without the line break that a value from a file ends with."""
        try:
            return cls.model_validate({name: value.strip() for name, value in env.items() if value.strip()})
        except ValidationError as error:
            raise SettingsError(from_pydantic(each, ()) for each in error.errors()) from error

    @property
    def sealing_secret(self) -> SecretStr | None:
        """The key for signing: our own secret, or otherwise one of Slack's that all replicas share. Without either,
        nothing can be signed."""
        return self.secret or self.signing_secret or self.bot_token

    @property
    def signer(self) -> CheckpointKey | None:
        """Signs checkpoints, and the door's permits."""
        return None if self.checkpoint_key is None else CheckpointKey(self.checkpoint_key.get_secret_value())

    @property
    def seal(self) -> Seal | None:
        secret, accepted = self.sealing_secret, self.accepted_secret
        if secret is None:
            return None
        return Seal(secret.get_secret_value(), accepted.get_secret_value() if accepted else None)


class File(_Table):
    agent: AgentSettings | None = None
    store: Store = Store()
    slack: Slack = Slack()
    serve: Serve = Serve()
    audit: Audit = Audit()
    log: Log = Log()
    limits: WaitingLimits = WaitingLimits()
    door: DoorSettings | None = None
    policy: tuple[Policy, ...] = ()


def tables_in(table: type[BaseModel]) -> Mapping[str, type[BaseModel]]:
    """The tables, and lists of tables, that stand in a table, by name."""
    return {
        name: part
        for name, field in table.model_fields.items()
        for part in (field.annotation, *get_args(field.annotation))
        if isinstance(part, type) and issubclass(part, BaseModel)
    }


class Settings(File):
    """The file together with the environment. `store_url` may hold a password, and no `repr` shows it."""

    environment: Environment
    policy_lines: tuple[int, ...] = ()
    """Where each policy begins in the file."""

    @cached_property
    def policies(self) -> Policies:
        return Policies(self.policy, self.policy_lines)

    @property
    def channels(self) -> list[str]:
        """The channels that the file names."""
        callers = self.door.caller if self.door else ()
        named = {self.audit.channel, *(one.channel for one in self.policy), *(one.channel for one in callers)}
        return sorted(channel for channel in named if channel is not None)

    @property
    def store_url(self) -> str:
        return self.environment.database_url or self.store.url

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings about these settings. They are printed, and the service starts anyway."""
        found = policy_warnings(self.policy, self.policy_lines)
        environment = self.environment
        unsealed = environment.secret is None and environment.sealing_secret is not None
        return (*found, _UNSEALED) if unsealed else found


_UNSEALED = Problem(
    "ADK_CONFIRM_SECRET",
    "is not set, so approvals and the ledger are signed with a Slack secret. If that changes, they no longer verify. "
    "Set it",
)


def load_settings(path: Path, env: Mapping[str, str]) -> Settings:
    return parse_settings(_text(path), env, str(path))


def load_what_fits(path: Path, env: Mapping[str, str]) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings without the parts that are wrong, and the problems of those parts."""
    return read_what_fits(_text(path), env, str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # with the mark that Windows puts before a text, or without
    except FileNotFoundError as error:
        what = "there is no such file. Write one with `adk-confirm init`, or name another with --config"
        raise SettingsError([Problem(str(path), what)]) from error
    except OSError as error:
        raise SettingsError([Problem(str(path), f"can't be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([Problem(str(path), "is not UTF-8 text; save it as UTF-8")]) from error


def parse_settings(text: str, env: Mapping[str, str], name: str = DEFAULT_FILE) -> Settings:
    """The settings. Raises `SettingsError` with all that is wrong in them.

    >>> parse_settings('[[policy]]\\ntools = ["deploy*"]\\nquorum = 0', {})
    Traceback (most recent call last):
    adk_confirm.bot.policy.checks.SettingsError: policy 1 (line 1), quorum: must be at least 1, not 0
    """
    settings, problems = read_what_fits(text, env, name)
    if problems:
        raise SettingsError(problems)
    return settings


def read_what_fits(text: str, env: Mapping[str, str], name: str = DEFAULT_FILE) -> tuple[Settings, tuple[Problem, ...]]:
    """The problems in the file, and the settings without the tables that have one: such a table gets its defaults. If a
    policy is wrong, there are no policies."""
    try:
        tables = tomllib.loads(text)
        saferepr(tables)  # whoever says what is wrong spells it, and can do so at more levels than this
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([Problem(name, f"is not TOML: {error}")]) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError([Problem(name, "has too long a number, or too many levels of tables")]) from error
    if isinstance(tables.get("policy"), dict):
        raise SettingsError([Problem("policy", "is a list of tables; write [[policy]], with two brackets")])
    begins = (number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[\s*policy\s*\]\]", line))
    lines = tuple(begins) if tables.get("policy") else ()
    problems: list[Problem] = []
    try:
        file = File.model_validate(tables)
    except ValidationError as error:
        # Of a list whose parts are wrong, pydantic says as well that it is too short.
        wrongs = (each for each in error.errors() if each["type"] != "too_short" or not each["input"])
        problems += [from_pydantic(each, _known_keys(each["loc"]), lines) for each in wrongs]
        wrong = {str(each["loc"][0]) for each in error.errors()}
        file = File.model_validate({key: table for key, table in tables.items() if key not in wrong})
    problems += policy_problems(file.policy, lines)
    if any(problem.key.startswith("policy") for problem in problems):
        file, lines = file.model_copy(update={"policy": ()}), ()
    try:
        environment = Environment.read(env)
    except SettingsError as error:
        problems += error.problems
        wrong = {problem.key for problem in error.problems}
        environment = Environment.read({key: value for key, value in env.items() if key not in wrong})
    if environment.listen is not None:
        file = file.model_copy(update={"slack": file.slack.model_copy(update={"listen": environment.listen})})
    return Settings.model_construct(**dict(file), environment=environment, policy_lines=lines), tuple(problems)


def serving_problems(settings: Settings, env: Mapping[str, str]) -> tuple[Problem, ...]:
    """What is missing that `serve` needs, and other commands do not."""
    slack, agent = settings.environment, settings.agent
    problems: list[Problem] = []
    if agent is None and settings.door is None:
        problems.append(Problem("agent", 'is missing; write [agent] with target = "my_agents.oncall:agent"'))
    named = {} if agent is None else {"agent.token_env": agent.token_env, "agent.secret_env": agent.secret_env}
    for door in [settings.door] if settings.door else ():
        named |= {f"door.caller[{at}].token_env": one.token_env for at, one in enumerate(door.caller)}
        named |= {f"door.server[{at}].token_env": one.token_env for at, one in enumerate(door.server)}
    problems += [
        Problem(key, f"the environment has no {name}; set it, or remove this")
        for key, name in named.items()
        if name is not None and not env.get(name)
    ]
    if settings.door is not None and slack.checkpoint_key is None:
        what = "is not set, and the door signs permits with it: openssl rand -hex 32"
        problems.append(Problem("ADK_CONFIRM_CHECKPOINT_KEY", what))
    if slack.bot_token is None:
        problems.append(Problem("SLACK_BOT_TOKEN", "is not set; it is the xoxb-… token of your Slack app"))
    if slack.app_token is None and slack.signing_secret is None:
        what = "is not set; it is the xapp-… token for Socket Mode (or set SLACK_SIGNING_SECRET, for HTTP)"
        problems.append(Problem("SLACK_APP_TOKEN", what))
    return tuple(problems)


def _known_keys(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys of the table that an error is about."""
    table: type[BaseModel] = File
    for step in loc[:-1]:
        table = tables_in(table).get(str(step), table)
    return tuple(table.model_fields)
