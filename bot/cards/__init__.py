"""Confirmations as people see them in Slack: cards, forms, thread lines, streamed replies.

What is shown changes in `card_presenter.py` and `blocks`; where a card stands changes in `places.py`. A card is a
view and can always be drawn again from its row. Begin with `draw.py`.
"""
