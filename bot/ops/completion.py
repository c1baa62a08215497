"""`adk-confirm completion`. It runs whenever a shell starts, so it loads nothing else."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    \b
    bash  add to ~/.bashrc:  eval "$(adk-confirm completion bash)"
    zsh   add to ~/.zshrc:   eval "$(adk-confirm completion zsh)"
    fish  adk-confirm completion fish > ~/.config/fish/completions/adk-confirm.fish
    """
    program = ctx.find_root()
    kind = get_completion_class(shell)
    assert kind is not None
    name = program.info_name or "adk-confirm"
    click.echo(kind(program.command, {}, name, f"_{name}_COMPLETE".replace("-", "_").upper()).source())
    return 0
