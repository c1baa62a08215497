"""Measures what a start costs: CPU seconds until `serve` is ready and of `--help`, and the modules that they import."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

from bench.clicks import SECRET
from bench.figures import Goal, Rounds, goals, table
from bench.filling import CONFIG
from bench.processes import first_line, free_ports, process, until_ready, usage

_IMPORTS = (
    "nine tenths of it are imports. The libraries alone take more than half: aiohttp (a third of it for its TLS "
    "contexts, without which the real Slack can't be called), pydantic, Bolt and the SDK. Of what our own modules "
    "take, half is spent on making 260 dataclasses. Going on would cost imports at their first use: the first "
    "click would wait for them"
)
_SERVE = "import adk_confirm.bot.ops.serve, adk_confirm.bot.app"
_LIBRARIES = """
import importlib, os
for name in {}:
    importlib.import_module(name)
os._exit(0)  # `serve` is not measured at its end either
"""
_MODULES = "import sys\n{}\nprint(*sys.modules, file=sys.stderr)"
_OURS = ("adk_confirm", "__main__", "__mp_main__")


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    found = Rounds()
    slack_port, port = free_ports(2)
    config = folder / "adk-confirm.toml"
    await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
    async with process("-m", "bench.clicks", "slack", str(slack_port), env={}) as slack:
        env = {
            "SLACK_API_URL": f"http://127.0.0.1:{slack_port}/api/",
            "SLACK_BOT_TOKEN": await first_line(slack),
            "SLACK_SIGNING_SECRET": SECRET,
            "ADK_CONFIRM_SECRET": "not a secret, but long enough",
            "DATABASE_URL": f"sqlite:///{folder / 'start.db'}",
        }
        await _serve(config, port, env)  # creates the tables
        libraries = [name for name in _modules(_SERVE) if name.partition(".")[0] not in _OURS]
        for _ in range(1 if quick else 5):
            found.add("serve", value=await _serve(config, port, env))
            found.add("libraries", value=await asyncio.to_thread(_cpu_of, "-c", _LIBRARIES.format(libraries)))
            found.add("--help", value=await asyncio.to_thread(_cpu_of, "-m", "adk_confirm.bot.cli", "--help"))
            found.add("python", value=await asyncio.to_thread(_cpu_of, "-c", "pass"))
    modules = {
        "serve": len(_modules(_SERVE)),
        "libraries": len(libraries),
        "--help": len(_modules("from adk_confirm.bot.cli import main; main(['--help'])")),
        "python": len(_modules("")),
    }
    names = {
        "serve": "`adk-confirm serve`, until it is ready",
        "libraries": "the libraries that `serve` imports, alone",
        "--help": "`adk-confirm --help`",
        "python": "Python alone",
    }
    rows = [[title, found.shown(name, unit=" s"), str(modules[name])] for name, title in names.items()]
    serve, help_ = found.median("serve"), found.median("--help")
    checked = goals(
        Goal("`serve` is ready after 0.5 s of CPU", f"{serve:.2f} s", serve <= 0.5, _IMPORTS),
        Goal("`--help` takes 0.15 s of CPU", f"{help_:.2f} s", help_ <= 0.15, _IMPORTS),
    )
    return f"{table(['', 'CPU', 'modules'], rows)}\n\n{checked}"


async def _serve(config: Path, port: int, env: dict[str, str]) -> float:
    async with process("-m", "adk_confirm.bot.cli", "serve", "--config", str(config), env=env) as bot:
        await until_ready(port)
        return usage(bot.pid)[0]


def _cpu_of(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _modules(code: str) -> list[str]:
    """The modules that are loaded after this code ran. The command itself may end with `SystemExit`."""
    code = _MODULES.format(f"try:\n    {code or 'pass'}\nexcept SystemExit:\n    pass")
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stderr.splitlines()[-1].split()
