"""The tools of MCP servers, with the gate on the toolset. `mcp` is an optional dependency.

Begin with `toolset.py`.
"""
