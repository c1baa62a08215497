"""Only its user can read a store from the first moment, whatever the umask. The store is never part of a package."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from adk_confirm.bot.hosts.adk_in_process import artifact_service, session_service
from adk_confirm.bot.ops.check import readable_by_others
from adk_confirm.bot.ops.findings import warn
from adk_confirm.bot.store.open import open_store
from tests.support.forked import forked

ROOT = Path(__file__).resolve().parents[3]


async def makes(path: str, umask: str) -> None:
    """Runs in the child."""

    def no_chmod(event: str, args: tuple[object, ...]) -> None:
        if event == "os.chmod":
            raise AssertionError(f"{args[0]} was wider before")

    sys.addaudithook(no_chmod)
    os.umask(int(umask, 8))
    url = f"sqlite:///{path}"
    store = await open_store(url, "a secret of thirty-two characters!")
    artifact_service({}, url)
    await session_service(url).create_session(app_name="clerk", user_id="ann", session_id="s")
    print(json.dumps({one.name: oct(one.stat().st_mode & 0o777) for one in Path(path).parent.iterdir()}))
    await store.close()
    assert os.umask(0) == int(umask, 8)


async def made(path: Path, umask: str) -> dict[str, str]:
    with TemporaryFile() as errors:
        process = await forked(__name__, "makes", [str(path), umask], env=os.environ, errors=errors)
        said = await process.stdout.read()
        await process.close()
        errors.seek(0)
        wrong = errors.read()
        assert wrong == b"", wrong.decode()
    modes: dict[str, str] = json.loads(said)
    return modes


@pytest.mark.parametrize("umask", ["000", "077"])
async def test_every_file_of_a_store_is_made_for_its_user_alone(tmp_path: Path, umask: str) -> None:
    modes = await made(tmp_path / "x.db", umask)
    assert modes.pop("x-adk-artifacts") == "0o700"
    assert modes == dict.fromkeys(("x.db", "x.db-wal", "x.db-shm", "x.db.lock", "x-adk.db"), "0o600")
    assert list(readable_by_others(f"sqlite:///{tmp_path / 'x.db'}")) == []


async def test_a_store_that_others_may_read_already_is_left_and_reported(tmp_path: Path) -> None:
    """Whoever made it so may have had a reason, a group that makes backups for example."""
    path = tmp_path / "x.db"
    path.touch()
    path.chmod(0o640)
    modes = await made(path, "022")
    assert (modes["x.db"], modes["x.db.lock"]) == ("0o640", "0o600")
    folder = tmp_path / "x-adk-artifacts"
    folder.chmod(0o755)
    assert [*readable_by_others(f"sqlite:///{path}")] == [
        warn("x-adk-artifacts", f"others on this machine may use it (755): chmod 700 {folder}"),
        warn("x.db", f"others on this machine may use it (640): chmod 600 {path}"),
    ]
    assert list(readable_by_others("postgresql://confirm@database/confirm")) == []


# What is deployed


def test_the_unit_and_the_containers_may_do_no_more_than_they_need() -> None:
    unit = (ROOT / "docs" / "adk-confirm.service").read_text(encoding="utf-8")
    for line in ("UMask=0077", "StateDirectoryMode=0700", "NoNewPrivileges=true", "CapabilityBoundingSet="):
        assert f"\n{line}\n" in unit
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    bot, _, database = compose.partition("\n  database:")
    assert re.search(r"^    read_only: true", bot, re.MULTILINE)
    for service in (bot, database):
        assert "\n    cap_drop: [ALL]\n" in service
        assert '\n    security_opt: ["no-new-privileges:true"]\n' in service


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".git", ".venv", "config", "x.db", "x.db-wal", "tests", "adk-confirm.toml"),
        *("examples/.env", "bot/x.db", "runtime/__pycache__", "bot/x.db.lock", "examples/adk/.env.production"),
    ],
)
def test_secrets_and_stores_stay_out_of_the_image(path: str) -> None:
    assert not shipped(path)


def test_what_the_image_is_built_from_is_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    rooms = [link.name for link in (ROOT / "src" / "adk_confirm").iterdir() if link.is_symlink()]
    assert "runtime" in rooms
    wanted = {
        *build["packages"],
        *build["force-include"],
        *(f"{room}/__init__.py" for room in rooms),
        project["project"]["readme"],
        "pyproject.toml",
    }
    wanted |= {*project["project"]["license-files"], "constraints.txt", "build.txt", "bot/app.py"}
    assert {path for path in wanted if not shipped(path)} == set()


def shipped(path: str) -> bool:
    """As Docker reads the file: the last line that matches the path, or a folder above it, decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    found = True
    above = [path[: place.start()] for place in re.finditer("/", path)]
    for line in lines:
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and any(matches(pattern, one) for one in (path, *above)):
            found = line.startswith("!")
    return found


def matches(pattern: str, path: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(path.rpartition("/")[2], pattern.removeprefix("**/"))
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)
