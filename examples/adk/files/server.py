"""An MCP server over stdio with three files, which it keeps in memory. `agent.py` starts it."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

FILES = {"notes.txt": "Call the bank.", "plans.txt": "Move in May.", "old.txt": ""}

server = MCPServer("files")


@server.tool()
def list_files() -> list[str]:
    """The names of all files."""
    return sorted(FILES)


@server.tool()
def read_file(path: str) -> str:
    """What is in a file."""
    return FILES.get(path, f"There is no file {path}.")


@server.tool()
def delete_file(path: str) -> dict[str, object]:
    """Deletes a file for good."""
    return {"deleted": FILES.pop(path, None) is not None, "path": path}


if __name__ == "__main__":
    server.run(transport="stdio")
