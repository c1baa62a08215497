"""The Home tab and the list that `/approvals` shows.

What they list changes in `query.py`, how it looks in `presenter.py` and `blocks/home.py`. Begin with `tab.py`.
"""
