"""Callers at the door: HTTP, permits, the command, kills, and attackers.

What they promise is in docs/door.md. Begin with `test_door.py`.
"""
