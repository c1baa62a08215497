"""Hosts run agents and keep their sessions: our own runtime, google-adk in this process, or an ADK server over REST.

How a host is reached and what its events mean is changed here alone: all others see only `host.py`. Begin there, then
read `embedded.py` for our own runtime or `adk_host.py` for the others. `open_host.py` chooses one.
"""
