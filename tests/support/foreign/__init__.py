"""Agents that are not ours, on servers that are not ours: the real ones, each in a process of its own."""
