"""The same tests with the other major versions of google-genai and mcp."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import environment, run

HERE = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("package", "versions", "major", "tests"),
    [
        ("google-genai", ">=3,<4", "3", "models/test_gemini.py"),  # google-adk pins google-genai 2
        ("mcp", ">=1.24,<2", "1", "mcp/test_mcp.py"),
    ],
)
def test_the_other_majors_pass_the_same_tests(package: str, versions: str, major: str, tests: str) -> None:
    python = str(environment(package + versions))
    version = run(python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))")
    assert version.split(".")[0] == major
    said = run(python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-q", str(HERE / tests))
    assert " passed" in said
    assert "skipped" not in said
