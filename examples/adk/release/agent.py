"""Releases: a coordinator hands over to the agent that deploys, or to the agent for running services.

Each sub-agent's tools have gates of their own. Run it with `examples/adk/release/adk-confirm.toml`.
"""

from __future__ import annotations

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.function_tool import FunctionTool

MODEL = "gemini-2.5-flash"


def deploy(service: str, version: str, env: str) -> dict[str, object]:
    """Deploys a version of a service to "staging" or "prod"."""
    return {"deployed": service, "version": version, "env": env}


def is_prod(service: str, version: str, env: str) -> bool:  # noqa: ARG001  (google-adk hands over every argument)
    """Staging is deployed without asking."""
    return env != "staging"


def roll_back(service: str) -> dict[str, object]:
    """Brings the version before back."""
    return {"rolled_back": service}


def error_rate(service: str) -> dict[str, object]:
    """How many requests fail, in percent."""
    return {"service": service, "percent": 0.2}


deployer = LlmAgent(
    name="deployer",
    model=MODEL,
    description="Deploys services.",
    instruction="Call deploy at once: people decide about prod.",
    tools=[FunctionTool(deploy, require_confirmation=is_prod)],
)
watcher = LlmAgent(
    name="watcher",
    model=MODEL,
    description="Looks after services that run, and rolls them back.",
    instruction="Look at the error rate first. Call roll_back at once: people decide.",
    tools=[FunctionTool(error_rate), FunctionTool(roll_back, require_confirmation=True)],
)
root_agent = LlmAgent(
    name="release",
    model=MODEL,
    instruction="Hand deployments over to deployer, and trouble over to watcher.",
    sub_agents=[deployer, watcher],
)

app = App(name="release", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
