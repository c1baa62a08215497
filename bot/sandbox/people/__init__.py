"""People at their screens: what they say, click and see. Tests read like dialogues. Begin with `people.py`."""
