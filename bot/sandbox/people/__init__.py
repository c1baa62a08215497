"""People at their screens: what they say, click and see. Tests read like dialogues.

What a person can do in a test is added here alone. Begin with `people.py`.
"""
