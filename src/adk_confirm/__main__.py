"""`python -m adk_confirm` is the command `adk-confirm`."""

from __future__ import annotations

import sys

from adk_confirm.bot.cli import main

sys.exit(main())
