"""Language models behind one method: Gemini, and a scripted one for tests.

A new model is one class with the `Model` protocol of `model.py`; nothing else changes. Begin there.
"""
