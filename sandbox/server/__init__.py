"""The local Slack as a server: the Web API, events, Socket Mode, and faults on demand.

How requests arrive and events leave is changed here alone; what a method does is in `methods`. Begin with `server.py`.
"""
