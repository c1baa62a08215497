"""An MCP server over stdio with one tool, on whichever major version of the official package is installed."""

from __future__ import annotations

import importlib
from typing import Any

from tests.support.foreign.tools import log


def server() -> Any:
    try:
        return importlib.import_module("mcp.server.mcpserver").MCPServer("files")
    except ImportError:
        return importlib.import_module("mcp.server.fastmcp").FastMCP("files")  # its name in major version 1


files = server()


@files.tool()  # type: ignore[untyped-decorator]  # whichever major's
def delete_file(path: str) -> dict[str, Any]:
    """Deletes a file."""
    log("delete_file", path=path)
    return {"deleted": path}


if __name__ == "__main__":
    files.run(transport="stdio")
