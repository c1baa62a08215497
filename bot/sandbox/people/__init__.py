"""People at their screens: what they say, click and see. Tests read as dialogues with them. Begin with `people.py`."""
