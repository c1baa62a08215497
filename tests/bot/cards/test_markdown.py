"""Long replies are split: nothing is lost, and code blocks stay intact in each part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.blocks.markdown import inert, parts
from adk_confirm.blocks.text import units

LINES = st.lists(
    st.sampled_from(["", "some words", "```", "```python", "~~~~", "  - item", "x" * 90, "👩‍👩‍👧‍👦" * 9, "| a | b |"])
)


def test_a_short_text_is_one_part() -> None:
    assert parts("**Hello**\n\n- one") == ("**Hello**\n\n- one",)


def test_nothing_to_say_is_no_part() -> None:
    assert parts(" \n\n") == ()


def test_a_code_block_that_goes_on_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {n}" for n in range(6))
    assert parts(f"Look:\n```python\n{code}\n```\nDone.", 60) == (
        "Look:\n```python\nline 0\nline 1\nline 2\nline 3\nline 4\n```",
        "```python\nline 5\n```\nDone.",
    )


def test_a_line_too_long_for_a_part_is_parted_between_words() -> None:
    words = " ".join(f"word{n}" for n in range(40))
    made = parts(words, 100)
    assert [word for part in made for word in part.split()] == words.split()


def test_backticks_in_a_sentence_open_no_block() -> None:
    assert parts("``` not `a` fence\n" + "y" * 24 + "\n" + "x" * 24, 50)[1] == "x" * 24


@given(LINES)
def test_all_lines_are_posted_in_order_within_the_limit(lines: list[str]) -> None:
    made = parts("\n".join(lines), 100)
    assert all(units(part) <= 100 for part in made)
    words = [line for line in lines if line.strip() and not line.startswith(("```", "~~~"))]
    heard = [line for part in made for line in part.split("\n") if line.strip() and not line.startswith(("```", "~~~"))]
    assert "".join(words) == "".join(heard)


@given(st.text(alphabet="<>!@#channel U0ABC^|", max_size=40))
def test_no_mention_comes_through(text: str) -> None:
    shown = inert(text)
    assert not any(start in shown for start in ("<@U", "<!channel", "<!here", "<#C", "<!subteam"))


LINKS = st.lists(
    st.sampled_from(["[", "]", "(", ")", ":", "|", "<", ">", "Approve", "https://evil.example", " ", "\n", "`", "> "])
)


@given(LINKS)
def test_no_label_hides_where_a_link_leads(bits: list[str]) -> None:
    """Also while a reply grows: what was shown of it is the beginning of what will be shown."""
    text = "".join(bits)
    shown = inert(text)
    assert not any(start in shown for start in ("](", "][", "]:", "<https://evil.example|"))
    cut = text.rfind(" ") + 1
    assert shown.startswith(inert(text[:cut]))


def test_a_link_stays_one_and_shows_its_address() -> None:
    assert inert("See [the runbook](https://wiki.example/x).") == "See [the runbook] (https://wiki.example/x)."
    assert inert("<https://evil.example|Approve>") == "‹https://evil.example|Approve>"
    assert inert("[Approve]\n\n[Approve]: https://evil.example") == "[Approve]\n\n[Approve] : https://evil.example"
    assert inert("- [Approve]: https://evil.example\n\n[Approve]") == "- [Approve] : https://evil.example\n\n[Approve]"
    assert inert("[\\]]: https://evil.example") == "[\\]] : https://evil.example"
    assert inert("a <https://wiki.example> b < c | d") == "a <https://wiki.example> b < c | d"
