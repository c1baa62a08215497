"""The local Slack as a server: the Web API, events, Socket Mode, and faults on demand. Begin with `server.py`."""
