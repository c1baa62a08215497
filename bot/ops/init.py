"""`adk-confirm init`: a commented settings file to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from bot.ops import command_texts
from bot.ops.command import DEFAULT_FILE, FILE, tell

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "adk-confirm.toml"


@click.command()
@click.option("--config", type=FILE, default=DEFAULT_FILE, show_default=True, help="The file to write.")
@click.option("--agent", metavar="MODULE:NAME", help="Your agent.  [default: examples.oncall:agent, the demo's]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(config: Path, agent: str | None, force: bool) -> int:
    """Write a settings file with every key, explained, and example policies.

    `adk-confirm check` says what is still missing in it.
    """
    from runtime.errors import Conflict, StoreError

    text = _EXAMPLE.read_text(encoding="utf-8")
    if agent is not None:
        text = text.replace('target = "examples.oncall:agent"', f'target = "{agent}"')
    try:
        with config.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Conflict(command_texts.INIT_EXISTS.format(path=config)) from error
    except OSError as error:
        raise StoreError(f"{config} can't be written: {error.strerror}. Name another file with --config.") from error
    tell(command_texts.INIT_WRITTEN.format(path=config))
    return 0
