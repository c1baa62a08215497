"""The settings file and the environment: each problem names its key and says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from adk_confirm.bot.config.settings import Settings, SettingsError, load_settings, parse_settings, serving_problems

SECRETS = {
    "SLACK_BOT_TOKEN": "xoxb-1",
    "SLACK_APP_TOKEN": "xapp-1",
    "SLACK_SIGNING_SECRET": "8f742231b10e",
    "ADK_CONFIRM_SECRET": "a secret that is long enough",
}


def parse(text: str, env: Mapping[str, str] = SECRETS) -> Settings:
    return parse_settings(text, env)


def wrong(text: str, env: Mapping[str, str] = SECRETS) -> list[str]:
    with pytest.raises(SettingsError) as error:
        parse(text, env)
    assert str(error.value) == "\n".join(map(str, error.value.problems))
    return str(error.value).split("\n")


def policy(lines: str) -> str:
    return f'[[policy]]\ntools = ["*"]\napprovers = ["user:U1", "user:U2"]\n{lines}\n'


class TestWhole:
    def test_what_is_not_said(self) -> None:
        settings = parse(policy(""))
        (only,) = settings.policies.entries
        assert settings.store_url == "sqlite:///adk-confirm.db"
        assert settings.store.lease == timedelta(seconds=10)
        assert settings.slack.listen == "127.0.0.1:3000"
        assert settings.environment.api_url == "https://slack.com/api/"
        assert (only.quorum, only.allow_requester, only.expires_after) == (1, False, timedelta(hours=24))
        assert (only.edit, only.deny_reason, only.shared_channels, only.redact) == (True, "optional", False, ())
        assert (only.remind_after, only.max_denials, only.grant, only.channel) == (None, None, None, None)

    def test_a_remote_agent(self) -> None:
        settings = parse(
            '[agent]\nurl = "http://adk:8000/"\napp = "hr"\ntimeout = "1h"\n'
            'token_env = "ADK_TOKEN"\nsecret_env = "PLUGIN_SECRET"\n'
            '[agent.headers]\nX-Team = "a"\n' + policy("")
        )
        agent = settings.agent
        assert agent is not None
        assert (agent.url, agent.app, agent.timeout) == ("http://adk:8000", "hr", timedelta(hours=1))
        assert agent.headers == {"X-Team": "a"}
        assert [*map(str, serving_problems(settings, SECRETS))] == [
            "agent.token_env: the environment has no ADK_TOKEN; set it, or remove this",
            "agent.secret_env: the environment has no PLUGIN_SECRET; set it, or remove this",
        ]
        assert serving_problems(settings, {**SECRETS, "ADK_TOKEN": "t", "PLUGIN_SECRET": "s"}) == ()


COSTLY = "true"
for name in "abcdefgh":
    COSTLY = f"[{','.join('1234567890')}].all({name}, {COSTLY})"

WRONG = [
    (policy("quorum = 0"), "policy 1: quorum: must be at least 1, not 0"),
    (policy("") + policy("quorum = '2'"), 'policy 2 (line 5), quorum: must be a whole number, not "2"'),
    (policy("quorum = true"), "policy 1: quorum: must be a whole number, not true"),
    (policy("qorum = 2"), "policy 1: qorum: is not a setting; did you mean quorum?"),
    (policy("zzz = 2"), "policy 1: zzz: is not a setting; there are tools, inputs, when, approvers"),
    ("[[polcy]]", "polcy: is not a setting; did you mean policy?"),
    ("[slack]\nlisen = 'x'", "slack.lisen: is not a setting; did you mean listen?"),
    ("[policy]\ntools = ['*']", "policy: is a list of tables; write [[policy]], with two brackets"),
    ("policy = 3", 'policy: must be a list, such as ["…"], not 3'),
    ("[[policy]]\nquorum = 1", 'policy 1: tools: is missing; write tools = ["deploy*"]'),
    ("[[policy]]\ntools = []", 'policy 1: tools: must not be empty; write tools = ["deploy*"]'),
    ("[[policy]]\ntools = 'deploy*'", 'policy 1: tools: must be a list, such as ["…"], not "deploy*"'),
    ("[[policy]]\ntools = ['a', 3]", "policy 1: tools[1]: must be a text in quotes, not 3"),
    ("[[policy]]\ntools = [' ']", "policy 1: tools[0]: must be a tool's name or a shell pattern"),
    (policy("confirm_dialog = 'yes'"), 'policy 1: confirm_dialog: must be true or false, not "yes"'),
    (
        policy("expires_after = 3600"),
        'policy 1: expires_after: must be a text such as "30s", "10m", "1h" or "2d", not 3600',
    ),
    (policy("expires_after = '10 min'"), 'policy 1: expires_after: must be a duration such as "30s"'),
    (policy("edit = 'version'"), 'policy 1: edit: must be true, false, or names such as ["version"]'),
    (policy("allow_requester = 'everyone'"), 'policy 1: allow_requester: must be true, false, or "speakers"'),
    (policy("deny_reason = true"), 'policy 1: deny_reason: must be "optional" or "required"'),
    (policy("grant = 'forever'"), 'policy 1: grant: must be a duration such as "30s"'),
    (policy("max_denials = 0"), "policy 1: max_denials: must be at least 1, not 0"),
    (policy("barred = ['anna']"), "policy 1: barred[0]: must begin with group:, user:, email: or python:"),
    (
        policy("barred = ['group:oncall']"),
        "policy 1: barred[0]: must be the group's id, such as group:S0ONCALL",
    ),
    (policy("channel = '#deploys'"), 'policy 1: channel: must be the channel\'s id, such as "C0DEPLOYS"'),
    (policy("when = \"args.env = 'prod'\""), "policy 1: when: is not a CEL expression: use == to compare"),
    (
        policy("when = \"env == 'prod'\""),
        "policy 1: when: there is no `env`; an expression can use tool, args",
    ),
    (
        policy('when = "args.env == prod"'),
        "policy 1: when: there is no `prod`; an expression can use tool, args",
    ),
    (
        policy("when = \"args.env == 'prod' and args.n > 1\""),
        "policy 1: when: is not a CEL expression: use && for ",
    ),
    (policy("quorum = 3"), "policy 1: quorum: must be at most 2, not 3: only 2 people may decide"),
    (
        policy("quorum = 2\nbarred = ['user:U1']"),
        "policy 1: quorum: must be at most 1, not 2: only 1 person may decide",
    ),
    (
        policy("remind_after = '24h'"),
        "policy 1: remind_after: must be shorter than expires_after (1d), not 1d",
    ),
    (
        policy("escalate_after = '2h'\nexpires_after = '1h'\nescalate_to = ['group:S1']"),
        "policy 1: escalate_after: must be shorter than expires_after (1h), not 2h",
    ),
    (policy("escalate_after = '2h'"), "policy 1: escalate_to: is missing; escalate_after needs people"),
    (
        policy("escalate_to = ['group:S1']"),
        'policy 1: escalate_after: is missing; escalate_to needs a time, such as "20m"',
    ),
    (policy("edit = ['Token']\nredact = ['token']"), "policy 1: edit: names Token, which redact hides"),
    (policy("when = 'args.a[\"to-ken\"] == 1'\nredact = ['token']"), "policy 1: when: reads to-ken, which"),
    (
        policy("when = 'args.a.token == 1'\nredact = ['tok*']"),
        "policy 1: when: reads token, which redact hides",
    ),
    (policy("barred = ['user:U3', 'user:U3']"), "policy 1: barred: names user:U3 twice; once is enough"),
    ("[[policy]]\ntools = ['a', 'a']", "policy 1: tools: names a twice; once is enough"),
    (policy("grant_on = ['a']"), "policy 1: grant: is missing; grant_on needs a length"),
    ("[agent]", "agent: must have target or url, and has neither"),
    ("[agent]\ntarget = 'a:b'\nurl = 'http://x'", "agent: must have target or url, not both"),
    ("[agent]\nurl = 'http://x'", 'agent: must name the app as well as the url, as in app = "oncall"'),
    ("[agent]\ntarget = 'a:b'\napp = 'x'", "agent: can have app only with a url, not with a target"),
    ("[agent]\ntarget = 'a.b'", 'agent.target: must be a module and a name, such as "my_agents.oncall:agent"'),
    ("[agent]\nurl = 'adk:8000'\napp = 'x'", 'agent.url: must be an address such as "http://adk:8000"'),
    ("[agent]\nurl = 'http://x'\napp = 'x'\ntimeout = 5", "agent.timeout: must be a text such as"),
    ("agent = 'x'", 'agent: must be a table, not "x"'),
    ("[agent]\nurl = 'http://x'\napp = 'x'\nheaders = {'x y' = 'a'}", 'agent.headers: "x y" can\'t be sent'),
    ('[agent]\nurl = "http://x"\napp = "x"\nheaders = {x = "a\\nb"}', 'agent.headers: "x" can\'t be sent'),
    ("[agent]\napp = 'a'\nurl = 'http://ann:hush@adk:8000'", "agent.url: must have no user and password in it, since"),
    ("[agent]\napp = 'a'\nurl = 'ftp://ann:hush@adk:8000'", "agent.url: must have no user and password in it, since"),
    ("[store]\nurl = 'mysql://x'", 'store.url: must be "sqlite:///adk-confirm.db" or "postgresql://user@host/name"'),
    ("[store]\nlease = '0s'", "store.lease: must be more than zero"),
    ("[store]\nlease = '20m'", "store.lease: must be between 1s and 10m: after that time"),
    ("[slack]\nprompts = ['1', '2', '3', '4', '5']", "slack.prompts: must be at most 4 prompts"),
    ("[slack]\nprompts = [' ']", "slack.prompts: must be texts of 1 to 300 characters each"),
    ("[slack]\nlisten = '3000'", 'slack.listen: must be host and port, such as "127.0.0.1:3000", not "3000"'),
    ("[slack]\nlisten = 'localhost:99999'", "slack.listen: must be host and port"),
    ("[audit]\nchannel = 'audit'", 'audit.channel: must be the channel\'s id, such as "C0AUDIT"'),
    ("[agent\n", "adk-confirm.toml: is not TOML: "),
    *(
        (text, "adk-confirm.toml: has too long a number, or too many levels")
        for text in (
            policy(f"quorum = {'9' * 5000}"),
            policy(f"quorum = 0x{'f' * 5000}"),
            policy(f"quorum = {'[' * 5000}{']' * 5000}"),
            policy(f"{'.'.join(['quorum'] * 5000)} = 1"),
            f"[{'.'.join(['agent'] * 5000)}]",
        )
    ),
    (
        policy(f"when = '{COSTLY}'"),
        "policy 1: when: it takes more than 0.1 s or 10 MB to check",
    ),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said for _, said in WRONG])
def test_each_mistake_is_named_with_its_key(text: str, said: str) -> None:
    (problem,) = wrong(text)
    assert problem.replace("policy 1 (line 1), ", "policy 1: ").startswith(said)


def test_a_file_of_any_depth_ends_in_a_sentence() -> None:
    for depth in range(800, 1000):
        assert wrong(policy(f"{'.'.join(['quorum'] * depth)} = 1"))


def test_all_mistakes_at_once() -> None:
    text = policy("quorum = 0\nredacted = ['x']") + policy("dm = 3")
    assert [line.split(":")[0] for line in wrong(text)] == [
        "policy 1 (line 1), quorum",
        "policy 1 (line 1), redacted",
        "policy 2 (line 6), dm",
    ]


def test_contradictions_of_all_policies_at_once() -> None:
    text = policy("quorum = 3") + policy("when = 'x'\nchannel = 'acme'")
    assert [line.split(":")[0] for line in wrong(text)] == [
        "policy 1 (line 1), quorum",
        "policy 2 (line 5), channel",
        "policy 2 (line 5), when",
    ]


class TestQuorum:
    @pytest.mark.parametrize("more", ["'group:S1'", "'python:a:b'"])
    def test_nobody_knows_how_many_a_group_holds(self, more: str) -> None:
        parse(f"[[policy]]\ntools = ['*']\napprovers = ['user:U1', {more}]\nquorum = 5")

    def test_who_comes_by_escalation_counts(self) -> None:
        parse(policy("quorum = 3\nescalate_after = '1h'\nescalate_to = ['user:U3']"))


class TestWarnings:
    def test_a_policy_that_is_never_reached(self) -> None:
        settings = parse(
            policy("when = 'args.x == 1'")
            + policy("")
            + policy("quorum = 2")
            + "[[policy]]\ntools = ['deploy']\napprovers = ['user:U1']"
        )
        assert [str(warning) for warning in settings.warnings] == [
            "policy 3 (line 9): is never reached: policy 2 (line 5) comes first and covers the same tools",
            "policy 4 (line 13): is never reached: policy 2 (line 5) comes first and covers the same tools",
        ]

    @pytest.mark.parametrize(
        ("wide", "narrow", "covered"),
        [
            ("deploy*", "deploy_prod*", True),
            ("deploy*", "deploy", True),
            ("a?c", "a*c", False),
            ("a?c", "a?c", True),
            ("deploy_*", "deploy*", False),
            ("*x*", "[xy]", False),
            ("*", "[xy]", True),
        ],
    )
    def test_only_what_is_plainly_covered(self, wide: str, narrow: str, covered: bool) -> None:
        text = "".join(f"[[policy]]\ntools = ['{pattern}']\napprovers = ['user:U1']\n" for pattern in (wide, narrow))
        assert bool(parse(text).warnings) is covered

    def test_nobody_to_ask(self) -> None:
        (warning,) = parse("[[policy]]\ntools = ['rm']").warnings
        assert str(warning) == "policy 1 (line 1): names no approvers: every call that it covers is refused"
        (warning,) = parse("").warnings
        assert str(warning) == "policy: there is none: every call that needs a confirmation is refused"

    def test_escalating_to_who_is_there_already(self) -> None:
        (warning,) = parse(policy("escalate_after = '1h'\nescalate_to = ['user:U2']")).warnings
        assert str(warning) == "policy 1 (line 1): escalates to user:U2, who may decide from the start"

    def test_without_a_secret_of_its_own(self) -> None:
        settings = parse(policy(""), {**SECRETS, "ADK_CONFIRM_SECRET": ""})
        (warning,) = settings.warnings
        assert warning.key == "ADK_CONFIRM_SECRET"
        assert settings.environment.sealing_secret is not None
        assert settings.environment.sealing_secret.get_secret_value() == "8f742231b10e"


class TestEnvironment:
    def test_the_database_of_the_environment_comes_first(self) -> None:
        settings = parse(
            '[store]\nurl = "sqlite:///adk-confirm.db"', {**SECRETS, "DATABASE_URL": "postgresql://u:p@db/confirm"}
        )
        assert settings.store_url == "postgresql://u:p@db/confirm"

    def test_a_wrong_one_is_not_repeated_since_it_may_hold_a_password(self) -> None:
        (problem,) = wrong("", {"DATABASE_URL": "mysql://root:hunter2@db"})
        assert problem.startswith("DATABASE_URL: must be")
        assert "hunter2" not in problem

    def test_another_slack(self) -> None:
        assert parse("", {"SLACK_API_URL": "http://127.0.0.1:9/api"}).environment.api_url == "http://127.0.0.1:9/api/"

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("SLACK_BOT_TOKEN", "xapp-1", "SLACK_BOT_TOKEN: must be the xoxb-… token; this is the xapp-… one"),
            ("SLACK_APP_TOKEN", "xoxb-1", "SLACK_APP_TOKEN: must be the xapp-… token; this is the xoxb-… one"),
            ("SLACK_APP_TOKEN", "xapp-1\nx", "SLACK_APP_TOKEN: must be the xapp-… token and nothing else"),
            ("SLACK_API_URL", "slack.com", "SLACK_API_URL: must be an address"),
            ("ADK_CONFIRM_SECRET", "short", "ADK_CONFIRM_SECRET: must have at least 16 characters"),
        ],
    )
    def test_what_is_in_the_wrong_place(self, name: str, value: str, said: str) -> None:
        (problem,) = wrong("", {name: value})
        assert problem.startswith(said)

    def test_what_was_read_from_files(self) -> None:
        env = {
            **SECRETS,
            "SLACK_SIGNING_SECRET": "signs",
            "DATABASE_URL": "sqlite:///x.db",
            "ADK_CONFIRM_SECRET": "s" * 16,
        }
        assert parse("", {name: f"{value}\n" for name, value in env.items()}) == parse("", env)
        assert parse("", dict.fromkeys(env, "\n")) == parse("", {})

    def test_serving_needs_an_agent_a_token_and_a_way_in(self) -> None:
        problems = serving_problems(parse("", {}), {})
        assert [problem.key for problem in problems] == ["agent", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"]
        either = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": "s"}
        assert serving_problems(parse("[agent]\ntarget = 'a:b'", either), either) == ()

    def test_no_secret_is_ever_printed(self) -> None:
        remote = '[agent]\nurl = "http://x"\napp = "x"\nheaders = {Authorization = "Bearer hunter2"}'
        settings = parse(remote, {**SECRETS, "DATABASE_URL": "postgresql://u:hunter2@db/x"})
        assert not any(secret in repr(settings) for secret in (*SECRETS.values(), "hunter2"))


class TestFiles:
    def test_a_file_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "adk-confirm.toml"
        path.write_text(policy("quorum = 2"), encoding="utf-8")
        assert load_settings(path, SECRETS) == parse(policy("quorum = 2"))

    def test_a_file_as_windows_saves_it(self, tmp_path: Path) -> None:
        path = tmp_path / "adk-confirm.toml"
        path.write_text(policy("quorum = 2"), encoding="utf-8-sig", newline="\r\n")
        assert load_settings(path, SECRETS) == parse(policy("quorum = 2"))

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="Write one with `adk-confirm init`, or name another with --config"):
            load_settings(tmp_path / "x.toml", SECRETS)

    def test_not_a_text(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(b"\xff\xfe")
        with pytest.raises(SettingsError, match="is not UTF-8 text; save it as UTF-8"):
            load_settings(path, SECRETS)
