"""`adk-confirm backup`: a copy of a SQLite store and of what google-adk keeps beside it, while the service runs."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from adk_confirm.bot.ops.command import FILE, CommandLine, options
from adk_confirm.bot.store.open import sqlite_file
from adk_confirm.runtime.errors import Conflict, Invalid, NotFound, StoreError
from adk_confirm.runtime.store.private_files import make_private_file, make_private_folder


@click.command()
@click.argument("folder", type=FILE)
@options(json=True)
def backup(call: CommandLine, folder: Path) -> None:
    """Copy a SQLite store into a new folder, together with google-adk's files beside it. The service may run.

    To restore: stop the service, copy the files back in place of those that are there, and start it.
    """
    path = sqlite_file(call.settings.store_url)
    if path is None:
        raise Invalid('Back up PostgreSQL with its own tools, such as pg_dump --format=custom "$DATABASE_URL".')
    if not path.exists():
        raise NotFound(f"There is no store at {path} yet.")
    if folder.exists():
        raise Conflict(f"{folder} exists already. Name a new folder, such as one with today's date.")
    made = []
    try:
        make_private_folder(folder)
        # google-adk's sessions first: a store that is copied after them asks again at worst, and loses nothing.
        for one in (path.with_name(f"{path.stem}-adk.db"), path):
            if one.exists():
                _copy(one, make_private_file(folder / one.name))
                made.append(one.name)
        artifacts = path.with_name(f"{path.stem}-adk-artifacts")
        if artifacts.is_dir():
            shutil.copytree(artifacts, make_private_folder(folder / artifacts.name), dirs_exist_ok=True)
            made.append(artifacts.name)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(folder, ignore_errors=True)  # or somebody would take it for a whole copy
        raise StoreError(f"The copy in {folder} failed, and was removed: {error}.") from error
    call.tell({"files": [*made]}, f"{folder} has {', '.join(made)}.")


def _copy(there: Path, to: Path) -> None:
    """Copies the store as SQLite itself does it: one state of it, whatever is written meanwhile."""
    with (
        closing(sqlite3.connect(f"{there.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(to)) as target,
    ):
        source.backup(target)
