"""The majors that are not installed here pass the same tests, each in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import environment, run

HERE = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("wanted", "distribution", "major", "tests"),
    [
        # google-adk pins google-genai 2.
        ("google-genai>=3,<4", "google-genai", "3", "models/test_gemini.py"),
        ("mcp>=1.24,<2", "mcp", "1", "mcp/test_mcp.py"),
    ],
)
def test_another_major_passes_the_same_tests(wanted: str, distribution: str, major: str, tests: str) -> None:
    python = str(environment(wanted))
    installed = run(python, "-c", f"import importlib.metadata as m; print(m.version({distribution!r}))")
    assert installed.split(".")[0] == major
    said = run(python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-q", str(HERE / tests))
    assert " passed" in said
    assert "skipped" not in said
