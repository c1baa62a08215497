"""Language models behind one method: Gemini, and a scripted one for tests.

A new model is one class with the protocol of `protocol.py`; one that a name stands for also gets a line in
`by_name.py`. Begin with `protocol.py`.
"""
