"""The majors of google-genai and mcp that are not installed here pass the same tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import environment, run

HERE = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_other_majors_pass_the_same_tests() -> None:
    python = str(environment("google-genai>=3,<4", "mcp>=1.24,<2"))  # google-adk pins google-genai 2
    versions = "import importlib.metadata as m; print(m.version('google-genai'), m.version('mcp'))"
    genai, mcp = run(python, "-c", versions).split()
    assert (genai.split(".")[0], mcp.split(".")[0]) == ("3", "1")
    tests = (str(HERE / file) for file in ("models/test_gemini.py", "mcp/test_mcp.py"))
    said = run(python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-q", *tests)
    assert " passed" in said
    assert "skipped" not in said
