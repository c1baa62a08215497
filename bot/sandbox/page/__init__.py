"""The local Slack in a browser. The page's own files are in `assets/`. Begin with `page.py`."""
