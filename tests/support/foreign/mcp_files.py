"""An MCP server with one tool, of whichever major of the official package is installed, over stdio."""

from __future__ import annotations

import importlib
from typing import Any

from tests.support.foreign.tools import log


def server() -> Any:
    try:
        return importlib.import_module("mcp.server.mcpserver").MCPServer("files")
    except ImportError:
        return importlib.import_module("mcp.server.fastmcp").FastMCP("files")  # what major 1 calls it


files = server()


@files.tool()  # type: ignore[untyped-decorator]  # whichever major's
def delete_file(path: str) -> dict[str, Any]:
    """Deletes a file."""
    log("delete_file", path=path)
    return {"deleted": path}


if __name__ == "__main__":
    files.run(transport="stdio")
