"""The Home tab and the list that `/approvals` shows.

What they list is changed in `query.py`, its order in `bot/store/waiting_index.py`, and how it looks in
`blocks/home.py`. Begin with `lists.py`.
"""
