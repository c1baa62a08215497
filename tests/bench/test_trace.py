"""How many of our files a click passes until the tool starts, and how many transactions it writes."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.counting import at_most


def test_a_click_takes_few_files_and_transactions() -> None:
    ran = subprocess.run([sys.executable, "-m", "bench.trace"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+) files, (\d+) writing transactions", ran.stdout)
    assert found is not None, ran.stdout
    at_most("files of a click", int(found[1]))
    at_most("writing transactions of a click", int(found[2]))
