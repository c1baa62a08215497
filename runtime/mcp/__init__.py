"""The tools of MCP servers, with the gate on the toolset. `mcp` is an optional dependency.

How a server is reached and how far it is trusted is changed here alone. Begin with `toolset.py`.
"""
