"""Escaping and cutting of text: a reader sees everything that is there, and cuts are between words."""

from __future__ import annotations

import sys
import unicodedata
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adk_confirm.blocks.text import escape, fit, inert, pieces, plain, prose, right_to_left, units, visible
from tests.blocks import strategies

CLUSTERS = ["👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇮🇹", "👍🏽", "❤️", "1️⃣", "e\u0301", "각", "\u1112\u1161\u11ab", "क्षि", "x", " ", "\n"]


def test_every_character_that_nobody_sees_becomes_an_escape() -> None:
    shown = {"\u0600", "\u0601", "\u0602", "\u0603", "\u0604", "\u0605", "\u06dd", "\u0890", "\u0891", "\u08e2"}
    shown |= {"\U000110bd", "\U000110cd"}  # marks of format category that are drawn
    hidden = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        and character not in shown
        and visible(character) == character
    ]
    assert hidden == []


@pytest.mark.parametrize(
    ("raw", "seen_as"),
    [
        ("p\u01c0ay p\u0e50y o\u0660k g\u1040 p\u101dy", "p\\u01c0ay p\\u0e50y o\\u0660k g\\u1040 p\\u101dy"),
        ("ราคา ๑๐ บาท, abc ๐, 日本A５", "ราคา ๑๐ บาท, abc ๐, 日本A５"),
        ("\u2c9f\u2ca3\u2ca5", "\\u2c9f\\u2ca3\\u2ca5"),
        ("invoice\u202egnp.exe", "invoice\\u202egnp.exe"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("ze\u200bro", "ze\\u200bro"),
        ("soft\u00adhyphen", "soft\\u00adhyphen"),
        ("two\nlines", "two\\nlines"),
        ("\t\r\x1b", "\\t\\r\\u001b"),
        ("half \ud83d", "half \\ud83d"),
        ("tag \U000e0041", "tag \\udb40\\udc41"),
        ("wide\u2003space", "wide\\u2003space"),
        ("filler\u3164", "filler\\u3164"),
        ("1\u00a0500\u202f€", "1\\u00a0500\\u202f€"),
        ("a\u3000b \U0001d159\U00016fe4", "a\\u3000b \\ud834\\udd59\\ud81b\\udfe4"),
        ("\u0430pprove pr\u043ed", "\\u0430pprove pr\\u043ed"),
        ("pr\u0585d \uff50rod \U0001d5c9rod", "pr\\u0585d \uff50rod \\ud835\\uddc9rod"),
        ("\u217eelete \u216frs \u212aing ls\u037erm", "\\u217eelete \\u216frs \\u212aing ls\\u037erm"),
        ("\u0440\u0430\u0443\u043e", "\\u0440\\u0430\\u0443\\u043e"),
        ("to \u0440\u0430\u0443\u043e_2", "to \\u0440\\u0430\\u0443\\u043e_2"),
        ("для ops@\u0440\u0430\u0443.com", "для ops@\\u0440\\u0430\\u0443.com"),
        ("\u0410\u0421\u041c\u0415-prod", "\\u0410\\u0421\\u041c\\u0415-prod"),
        ("\u0432 \u0410\u0421\u041c\u0415-prod", "\u0432 \\u0410\\u0421\\u041c\\u0415-prod"),
        ("paypa\u04c0.com", "paypa\\u04c0.com"),
        ("\u0434\u043e \u0430\u0440\u0440\u04cf\u0435.com", "\u0434\u043e \\u0430\\u0440\\u0440\\u04cf\\u0435.com"),
        ("\u0430\u0440\u0440\u04cf\u0435-prod", "\\u0430\\u0440\\u0440\\u04cf\\u0435-prod"),
        ("pa\u04afpal \u0475ault", "pa\\u04afpal \\u0475ault"),
        ("\u2ca3rod \u10edrod p\u2d54od \u03c1rod", "\\u2ca3rod \\u10edrod p\\u2d54od \\u03c1rod"),
        ("di\u0261it", "di\\u0261it"),
        ("d\u0336r\u0338op \u20e0", "d\\u0336r\\u0338op \\u20e0"),
        *(
            (text, text)
            for text in ("С утра у реки роса_2", "сахар и соль", "МОСКВА: НЕТ", "5 с", "Ναι, το νέο", "ΝΑΙ")
        ),
        *(
            (text, text)
            for text in ("東京\u3000本社", "Пётр, API-ключ и SMS", "5 µs", "naïve", "第1回meeting", "API를", "ไฟล์PDF")
        ),
        *((text, text) for text in ("第\u2162章", "\u2160 и \u2164")),
        ("👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👍🏽 ❤️ 1️⃣", "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👍🏽 ❤️ 1️⃣"),
        ("joined\u200dletters", "joined\\u200dletters"),
        ("flag 🏴\U000e0041\U000e007f", "flag 🏴\\udb40\\udc41\\udb40\\udc7f"),
        ("e" + "\u0301" * 7, "e" + "\u0301" * 5 + "\\u0301" * 2),
    ],
)
def test_what_is_unseen_is_written_out(raw: str, seen_as: str) -> None:
    assert visible(raw) == seen_as


def test_nothing_is_written_over_a_letter() -> None:
    over = [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.combining(c) == 1 or unicodedata.category(c) == "Me"
    ]
    assert [c for c in over if visible(f"x{c}") == f"x{c}"] == []


def test_no_more_than_five_marks_stand_on_a_letter_in_any_script() -> None:
    """A taller stack is drawn over the lines above and below, which other people wrote."""
    marks = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Mn", "Mc")]
    assert [c for c in marks if c * 6 in visible(f"x{c * 30}")] == []
    mixed = "".join(marks[at] for at in range(0, len(marks), 50))
    longest = max(len(list(run)) for mark, run in groupby(visible(f"x{mixed}"), marks.__contains__) if mark)
    assert longest <= 5
    for word in ("བསྒྲུབས", "ဒါကျွန်ုပ်", "ប្រទេសកម្ពុជា", "นี้ที่", "בְּרֵאשִׁ֖ית", "क्ष्म्य", "ܒܰܪܢܳܫܳܐ"):
        assert visible(word) == word


@given(strategies.nasty | st.text("рауо.xд \u0336⟨", max_size=8))
def test_what_has_been_made_visible_stays_as_it_is(text: str) -> None:
    once = visible(text)
    assert visible(once) == once


def test_newlines_and_tabs_may_be_kept() -> None:
    assert visible("a\n\tb\r", keep="\n\t") == "a\n\tb\\r"


@given(strategies.nasty, st.integers(1, 60), st.none() | st.integers(1, 4))
def test_a_text_fits_or_is_cut_and_says_so(text: str, limit: int, lines: int | None) -> None:
    fitted = fit(text, limit, lines)
    assert units(fitted.text) <= limit
    if fitted.whole:
        assert fitted.text == text
        assert lines is None or text.count("\n") < lines
    else:
        assert fitted.text.endswith("…")
        assert text.startswith(fitted.text[:-1].removesuffix("\n"))
        assert units(text) > limit or text.count("\n") >= (lines or 0)


def test_the_limit_itself_is_not_cut_and_one_more_is() -> None:
    assert fit("x" * 10, 10).whole
    assert fit("x" * 11, 10) == fit("x" * 12, 10)
    assert fit("x" * 11, 10).text == "x" * 9 + "…"
    assert fit("👍" * 5, 10).whole  # two units each
    assert fit("👍" * 6, 10).text == "👍" * 4 + "…"
    assert fit("a\nb\nc", 10, lines=3).whole
    assert fit("a\nb\nc", 10, lines=2).text == "a\nb\n…"


@given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=20), st.integers(1, 30))
def test_a_cut_never_goes_through_what_reads_as_one_character(clusters: list[str], limit: int) -> None:
    text = "".join(clusters)
    fitted = fit(text, limit)
    boundaries = {"".join(clusters[:count]) for count in range(len(clusters) + 1)}
    first = units(clusters[0])
    if not fitted.whole and limit > first:  # with less room than the first one takes there is no good place
        assert fitted.text[:-1] in boundaries


@given(strategies.nasty, st.integers(8, 40))
@example("x" * 100, 8)
@example("a\n" * 50, 9)
def test_a_text_in_pieces_is_all_there(text: str, size: int) -> None:
    parts = pieces(text, size)
    assert "".join(parts) == text
    assert all(0 < units(part) <= size for part in parts)


def test_pieces_part_at_the_ends_of_lines() -> None:
    assert pieces("one line\ntwo lines\nthree", 20) == ["one line\ntwo lines\n", "three"]


@pytest.mark.parametrize(
    ("supplied", "written"),
    [
        ("1500", "1500"),
        ("-2.14.0", "-2.14.0"),
        ("approved_days", "approved_days"),
        ("_italic_", "`_italic_`"),
        ("<!channel>", "`&lt;!channel&gt;`"),
        ("a & b", "`a &amp; b`"),
        (":tada:", "`:tada:`"),
        ("evil.example", "`evil.example`"),
        ("@here", "`@here`"),
        ("`code`", "`ˋcodeˋ`"),
        ("two\nlines", "`two\\nlines`"),
        ("", "`“”`"),
        ("  ", "`“  ”`"),
    ],
)
def test_a_supplied_text_in_markup_is_a_word_or_code(supplied: str, written: str) -> None:
    assert inert(supplied) == written


@given(strategies.nasty, st.integers(10, 80))
def test_markup_is_cut_outside_of_entities_and_code(text: str, limit: int) -> None:
    written = inert(text, limit)
    assert units(written) <= limit
    if written.startswith("`"):
        inside = written[1:-1]
        assert "`" not in inside
        assert escape(inside.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")) == inside


def test_plain_text_holds_nothing_that_a_client_could_decode() -> None:
    assert plain("<@U0EVIL> :tada: &lt;b&gt; a & b: c", 100) == "‹@U0EVIL› ꞉tada: ＆lt;b＆gt; a & b: c"
    assert plain("12:00:07, 3:tada:, :17: 10:100:20", 100) == "12:00:07, 3꞉tada:, ꞉17: 10꞉100:20"
    assert plain("  \n ", 10) == "\\n"
    assert plain("", 10) == "(empty)"
    assert plain("a\nb", 10) == "a\\nb"


def test_prose_keeps_its_words_and_loses_its_markup() -> None:
    assert prose("a@b.example, http://x, www.x", 100) == "a＠b.example, http꞉//x, www․x"
    assert prose("*No* request_time_off for `me`", 100) == "∗No∗ request_time_off for ˋmeˋ"
    assert prose("`c`0 and a`b", 100) == "ˋcˋ0 and aˋb", "a mark inside a word opens code as well, or closes ours"


def test_right_to_left_is_noticed() -> None:
    assert right_to_left("abc שלום")
    assert right_to_left("١٢")
    assert not right_to_left("naïve 中文 👍")
