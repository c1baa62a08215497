"""Shows confirmations to people in Slack: cards, forms, thread lines, streamed replies.

`card_presenter.py` and `blocks` say what is shown, `places.py` says where. A card can always be drawn again from its
row. Begin with `draw.py`.
"""
