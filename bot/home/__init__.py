"""The Home tab and the list that `/approvals` shows.

`query.py` finds what they list; `presenter.py` and `blocks/home.py` say how it looks. Begin with `tab.py`.
"""
