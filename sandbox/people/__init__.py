"""Simulated people who use the sandbox's Slack: they write, click and read. Tests with them read like dialogues.

What a person can do in a test is added here alone. Begin with `people.py`.
"""
