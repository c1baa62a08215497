"""What an agent does not use is not imported."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys
import adk_confirm.runtime.mcp.toolset
from adk_confirm import Agent
from adk_confirm.runtime.models.by_name import Models
from adk_confirm.runtime.store.database import Database

asyncio.run(Database.open("sqlite://"))
print([name for name in ("google.genai", "mcp", "jsonschema", "anyio", "psycopg") if name in sys.modules])
"""


def test_models_servers_and_databases_load_their_libraries_with_their_first_use() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
