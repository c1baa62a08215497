"""ADK's own server imports this package and looks for `agent`."""

from . import agent as agent
