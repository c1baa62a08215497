"""An environment with `@google/adk` from npm, made once and kept outside the tree; `None` if there is no node."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SERVER = Path(__file__).with_name("server.mjs")
MIKRO = ("core", "reflection", "knex", "mariadb", "mssql", "mysql", "postgresql", "sqlite")
PACKAGE = {
    "private": True,
    "type": "module",
    "dependencies": {
        "@google/adk": "2.0.0",
        "@google/adk-devtools": "2.0.0",
        "@modelcontextprotocol/sdk": "1.32.2",  # it needs the official MCP package beside it for MCP tools
    },
    # All of one version: otherwise they do not work together, and they are not all published at once.
    "overrides": {f"@mikro-orm/{name}": "6.6.16" for name in MIKRO},
}


def google_adk_js() -> tuple[str, ...] | None:
    """The command that starts the server."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    wanted = json.dumps(PACKAGE)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()) / "adk-confirm-tests"
    room = caches / f"node-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if not room.exists():
        caches.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=caches) as making:
            fresh = Path(making) / "node"
            fresh.mkdir()
            (fresh / "package.json").write_text(wanted)
            command = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
            subprocess.run(command, cwd=fresh, check=True, capture_output=True)
            try:
                fresh.rename(room)
            except OSError:
                if not room.exists():  # another worker was faster
                    raise
    # Node looks for packages beside the file that imports them.
    shutil.copy(SERVER, room / SERVER.name)
    return node, str(room / SERVER.name)
