"""Finds the agent that `module:name` or a folder names. Every mistake gives one sentence."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.errors import ConfirmError

_USUAL_NAMES = ("agent", "root_agent")
_RUNTIME = Path(__file__).parent
_EXTRAS = {"google.adk": "adk", "mcp": "mcp"}


class BadTarget(ConfirmError):
    """There is no agent of this name. The message says what to change."""


def load_agent(target: str) -> Agent:
    """The `Agent` at `module:name`. Without a name: the module's `agent` or `root_agent`. Raises `BadTarget`."""
    found = load_object(target)
    if isinstance(found, Agent):
        return found
    kind = type(found)
    if kind.__module__.startswith("google.adk"):
        raise BadTarget(f"{target} is an agent of google-adk: an Agent of adk-confirm's own runtime is needed here.")
    raise BadTarget(
        f"{target} is of the type {kind.__name__}: an Agent (from adk_confirm import Agent) is needed here."
        f"{_hidden(target)}"
    )


def load_object(target: str) -> object:
    """Any object at `module:name`, or google-adk's agent in a folder. Raises `BadTarget`."""
    if "/" in target:
        return _load_folder(Path(target))
    module_name, colon, name = target.partition(":")
    if not all(step.isidentifier() for step in module_name.split(".")) or (colon and not name.isidentifier()):
        raise BadTarget(
            f"{target!r} is not a target. Write module:name, for example adk_confirm.examples.oncall:agent."
        )
    module = _load(module_name)
    for wanted in (name,) if name else _USUAL_NAMES:
        if hasattr(module, wanted):
            found: object = getattr(module, wanted)
            return found
    agents = sorted(key for key, value in vars(module).items() if isinstance(value, Agent))
    near = get_close_matches(name, vars(module), n=1)
    hint = f"; it has {', '.join(agents)}." if agents else f"; did you mean {near[0]}?" if near else "."
    raise BadTarget(f"The module {module_name} has no {name or 'agent'!r}{hint}{_hidden(target)}")


def _hidden(target: str) -> str:
    """What to do about a file in this folder that is not found, because an installed package has its name."""
    name = target.partition(":")[0].partition(".")[0]
    own, found = Path.cwd() / f"{name}.py", getattr(sys.modules[name], "__file__", None)
    if found is None or not own.exists() or own.samefile(found):
        return ""
    return f" {own.name} in this folder was not read, because an installed package is called {name}, too: rename it."


def _load_folder(folder: Path) -> object:
    """The agent or app in a folder, as google-adk's own servers find it: `agent.py`, or `root_agent.yaml`."""
    if folder.name.partition(":")[0].endswith(".py"):
        module = folder.name.partition(".py")[0]
        raise BadTarget(f"{folder} is a file: name its module and the agent in it, such as {module}:agent.")
    if not folder.is_dir():
        raise BadTarget(f"There is no folder {folder} here ({Path.cwd()}).")
    try:
        from google.adk.cli.utils.agent_loader import AgentLoader
    except ImportError as error:
        raise BadTarget(f"{folder} is a folder of google-adk, which is not installed{_extra_hint(error)}.") from error
    try:
        found: object = AgentLoader(str(folder.resolve().parent)).load_agent(folder.resolve().name)
    except (Exception, SystemExit) as error:
        raise BadTarget(f"The agent in {folder} could not be loaded: {_describe(error)}.") from error
    return found


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadTarget(_missing_module(error.name)) from error
        raise BadTarget(
            f"{name} needs the module {error.name!r}, which is not installed{_extra_hint(error)}."
        ) from error
    except (Exception, SystemExit) as error:
        raise BadTarget(f"{name} could not be imported: {_describe(error)}.") from error


def _extra_hint(missing: ImportError) -> str:
    """How to install the packages of one of our extras."""
    name = f"{missing.name}."
    extra = next((extra for root, extra in _EXTRAS.items() if name.startswith(f"{root}.") or name == "google."), None)
    return "" if extra is None else f": pip install 'adk-confirm[{extra}]'"


def _missing_module(missing: str) -> str:
    parent, _, name = missing.rpartition(".")
    known = [module.name for module in pkgutil.iter_modules(getattr(sys.modules.get(parent), "__path__", ()))]
    if near := get_close_matches(name, known, n=1):
        return f"There is no module {missing!r}. Did you mean {parent}.{near[0]}?"
    return f"There is no module {missing!r} here ({Path.cwd()}), in PYTHONPATH, or installed."


def _describe(error: BaseException) -> str:
    """The error in one line, with the place in the user's code that it came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    text = str(error).splitlines()[0] if str(error) else ""
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError) or not frames or Path(frames[-1].filename).parent == _RUNTIME:
        return said.rstrip(".")
    return f"{said.rstrip('.')} ({frames[-1].filename}, line {frames[-1].lineno})"
