"""The local Slack in a browser. The page's own files are in `assets/`.

How the page looks and what a visitor can do on it is changed here alone. Begin with `page.py`.
"""
