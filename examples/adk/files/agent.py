"""Files behind an MCP server: reading is allowed at once, deleting waits for people.

The server beside this file runs as a process of its own (pip install 'adk-confirm[adk,mcp]'). Run it with
`examples/adk/files/adk-confirm.toml`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from mcp import StdioServerParameters

HERE = Path(__file__).parent
SERVER = StdioConnectionParams(
    server_params=StdioServerParameters(command=sys.executable, args=[str(HERE / "server.py")]),
    timeout=60,  # seconds for the server to start: google-adk's default of five is short for a busy machine
)

reading = McpToolset(connection_params=SERVER, tool_filter=["list_files", "read_file"])
changing = McpToolset(
    connection_params=SERVER,
    tool_filter=["delete_file"],
    require_confirmation=True,
)

root_agent = LlmAgent(
    name="files",
    model="gemini-2.5-flash",
    instruction="You look after files. Call delete_file at once: people decide.",
    tools=[reading, changing],
)

app = App(name="files", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
