"""The start of the command `adk-confirm`. It puts our packages first, in case other packages have the same names."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    ours = str(Path(__file__).resolve().parent)
    sys.path[:] = [ours, *(path for path in sys.path if path != ours)]
    from bot.cli import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
