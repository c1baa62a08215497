"""Makes text safe to show: makes invisible characters visible, and cuts long text where a reader would.

Lengths are counted in UTF-16 code units, the larger of the ways in which Slack may count.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

MESSAGE_TEXT = 4000
HEADER = 150
SECTION = 3000
BUTTON = 75
OPTION = 75
INPUT = 3000
PLACEHOLDER = 150
CONFIRM_TITLE, CONFIRM_TEXT = 100, 300
VIEW_BLOCKS = 100

_PICTOGRAPH = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf"
    "\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_ONE_EMOJI = f"{_PICTOGRAPH}[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
_NATIONS = ("gbeng", "gbsct", "gbwls")  # the three flags that are written with invisible letters
_NATION_FLAG = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in nation) + "\U000e007f" for nation in _NATIONS
)
_EMOJI = f"{_NATION_FLAG}|[0-9#*]\ufe0f\u20e3|{_ONE_EMOJI}(?:\u200d{_ONE_EMOJI}){{0,6}}"
_BLANK = (  # printable for Python, but nothing to be seen
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\ufffd"
    "\U0001107f\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_LATIN_TWINS = "АВЕЅІЈКМНОРСТУХасеѕіјорухһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧονϲϳՍՏՕօսհոցᎠᎡᎢᎪᎫᎬᎳᎷᎻᏀᏃᏒᏙᏚᏞᏟᏢᏦᏴᏻꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"
_LATIN_TWINS += "ⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬⲟⲣⲥ"
_ROUND = "๐໐၀ဝ០"  # like the letter o, in scripts that may stand beside Latin
_ONLY_TWINS = re.compile(rf"[0-9_]*[{_LATIN_TWINS}][0-9_]*[{_LATIN_TWINS}][0-9_{_LATIN_TWINS}]*")
_BESIDE_LATIN = {"LATIN", "MODIFIER", "MICRO", "FEMININE", "MASCULINE", "FULLWIDTH", "HALFWIDTH", "CJK", "HIRAGANA"}
_BESIDE_LATIN |= {"KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "HANGUL", "BOPOMOFO", "THAI", "LAO", "KHMER"}
_BESIDE_LATIN |= {"MYANMAR"}
"""Latin, and the scripts that are written beside it without a space."""
_ODD = f"{_BLANK}|[\u01c0-\u01c3\u0251\u0261\u037e\u1fef\U0001d400-\U0001d7ff]"
_MOST_MARKS = 5  # above and below one letter. More would be written over other lines
_CJK_SPACE = "(?<=[\u3001-\u9fff\uff01-\uff60])\u3000"
_IDEOGRAPHS = "[\u4e00-\u9fff]+"  # all can be seen


@cache
def _notable(keep: str) -> re.Pattern[str]:
    return re.compile(f"(?P<fine>{_EMOJI}|{_CJK_SPACE}|{_IDEOGRAPHS})|(?P<odd>{_ODD})|[^ -~{keep}]")


_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str, keep: str = "") -> str:
    """The text with characters escaped that a reader can't see, or that would move other text: controls, direction
    overrides, zero-width and private-use characters, spaces of other kinds, strokes through letters and stacks of
    accents; letters of mathematics and phonetics; and letters of other scripts that look Latin. Wide spaces in Chinese
    and Japanese stay, and the parts of well-formed emoji. The characters in `keep` stay as well: newline or tab."""
    if text.isascii() and text.isprintable():
        return text

    marks, end = 0, -1

    def spell(match: re.Match[str]) -> str:
        nonlocal marks, end
        found = match.group()
        if match.lastgroup:
            return found if match.lastgroup == "fine" else _escape(found)
        if unicodedata.category(found)[0] == "M":
            marks, end = marks + 1 if match.start() == end else 1, match.end()
            written_over = unicodedata.combining(found) == 1 or unicodedata.category(found) == "Me"
            return found if marks <= _MOST_MARKS and not written_over else _escape(found)
        return found if found.isprintable() else _escape(found)

    return _unmask(_notable(keep).sub(spell, text))


def _unmask(text: str) -> str:
    """Escapes what looks Latin and is not: letters of another script where a Latin letter stands up to the next space,
    whatever they look like. A word with a hyphen may have both (API-ключ) if the text shows its script elsewhere.
    A word alone is escaped if all its letters look Latin and nothing in the text shows their script; not one in
    capitals, since Greek and Russian have many (МОСКВА)."""
    if _BESIDE_LATIN.issuperset(map(_script, set(text))):
        return text
    alone = [found for found in _SPACELESS.findall(text) if not _LATIN.search(found)]
    evident = {_script(letter) for letter in {*"".join(alone)}.difference(_LATIN_TWINS)}

    def unmask(match: re.Match[str]) -> str:
        found = match.group()
        latin, hyphens = _LATIN.search(found), _HYPHENS.fullmatch(found)

        def spell(match: re.Match[str]) -> str:
            word = match.group()
            if word.isascii():
                return word
            strange = {letter for letter in word if _script(letter) not in _BESIDE_LATIN}
            twins = _ONLY_TWINS.fullmatch(word) is not None
            told = {_script(letter) for letter in strange} <= evident
            fine = hyphens and told and not twins and not _LATIN.search(word) if latin else not twins or told
            if fine or (not latin and word.isupper()):
                return word
            return "".join(_escape(letter) if letter in strange else letter for letter in word)

        return _WORD.sub(spell, found)

    unmasked = _SPACELESS.sub(unmask, text)
    return unmasked if unmasked == text else _unmask(unmasked)  # an escape has Latin letters


_LATIN, _SPACELESS, _WORD, _HYPHENS = map(re.compile, ("[A-Za-z]", r"\S+", r"\w+", r"\W*\w+(?:-\w+)*\W*"))


@cache
def _script(character: str) -> str:
    """`CYRILLIC`. Of what is no letter or digit: `LATIN`, as it stands with any."""
    if character in _ROUND:
        return "ROUND"
    letter = not character.isascii() and unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lo", "Lm", "Nl", "Nd")
    return re.split("[ -]", unicodedata.name(character, ""))[0] if letter else "LATIN"


@lru_cache(4096)  # a text has few, and some of them often
def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)  # as in JSON, so that a quoted text stays a JSON string
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def right_to_left(text: str) -> bool:
    """Whether part of it reads from right to left, so that it could swap places with its neighbours."""
    return not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in {*text})


def units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True, slots=True)
class FittedText:
    """A text within its limit. Not `whole` if something was cut."""

    text: str
    whole: bool = True


def fit(text: str, limit: int, lines: int | None = None) -> FittedText:
    """The text, or its beginning and `…`, within `limit` units and `lines` lines."""
    kept, short = text, False
    if lines is not None and text.count("\n") >= lines:
        kept, short = "\n".join(text.split("\n", lines)[:lines]), True
    if units(kept) + 2 * short <= limit:
        return FittedText(kept + "\n…", False) if short else FittedText(text)
    return FittedText(kept[: _last_boundary(kept, _fitting_length(kept, limit - 1))] + "…", False)


def fit_visible(text: str, limit: int, lines: int | None = None, *, keep: str = "") -> FittedText:
    """`visible` and `fit` in one. It stops reading at the limit, since a text may have megabytes."""
    near = text[: limit + _MARGIN]
    fitted = fit(visible(near, keep), limit, lines)
    return FittedText(fitted.text, fitted.whole and len(near) == len(text))


_MARGIN = 64  # read past the limit, so that a cut does not depend on where reading stopped


def pieces(text: str, size: int) -> list[str]:
    """The whole text in parts of at most `size` units, split at line ends or between words if possible."""
    parts: list[str] = []
    start = 0
    while start < len(text):
        end = start + _fitting_length(text[start : start + size], size)
        if end < len(text):
            stop = max(text.rfind("\n", start + size // 2, end), 0) or text.rfind(" ", start + size // 2, end)
            end = stop + 1 if stop > 0 else start + _last_boundary(text[start : end + 1], end - start)
        parts.append(text[start:end])
        start = end
    return parts


def _fitting_length(text: str, limit: int) -> int:
    """How many characters fit into `limit` units."""
    if text.isascii() and len(text) <= limit:
        return len(text)
    spent = 0
    for index, character in enumerate(text[: limit + 1]):
        spent += 2 if character > "\uffff" else 1
        if spent > limit:
            return index
    return len(text)


def _last_boundary(text: str, index: int) -> int:
    """The last place at or before `index` that is not inside what a reader sees as one character."""
    for back in range(index, max(index - 64, 0), -1):
        if _between_characters(text, back):
            return back
    return index


_JOINER = "\u200d"
_MODIFIERS = re.compile("[\U0001f3fb-\U0001f3ff\ufe00-\ufe0f\u20e3\U000e0020-\U000e007f\u200c\u200d]")


def _between_characters(text: str, index: int) -> bool:
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if before == _JOINER or unicodedata.combining(before) == 9 or (before, after) == ("\r", "\n"):
        return False
    if _MODIFIERS.match(after) or unicodedata.category(after).startswith("M"):
        return False
    if before in _REGIONALS and after in _REGIONALS:
        run = len(text[:index]) - len(text[:index].rstrip(_REGIONALS))
        return run % 2 == 0
    return not ("\u1100" <= after <= "\u11ff" and ("\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"))


_REGIONALS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def escape(text: str) -> str:
    """Escapes the control characters of Slack's markup as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_TOKEN = re.compile(r"-?[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*|-?[0-9]+(?:\.[0-9]+)+", re.ASCII)


def inert(text: str, limit: int | None = None) -> str:
    """A supplied text inside markup: a plain word stays as it is, anything else becomes code, where nothing is
    interpreted. The limit is for the result, and a cut never leaves half an entity or an open code span."""
    text = visible(text)
    if _TOKEN.fullmatch(text) and (limit is None or len(text) <= limit):
        return text
    if not text.strip():
        text = f"“{text}”"
    kept = text.replace("`", "ˋ")  # a code span has no escape for its own mark
    code = escape(kept)
    if limit is not None and units(code) + 2 > limit:
        kept, code = _fit_escaped(kept, limit - 3)
        code += "…"
    return f"`{code}`"


def _fit_escaped(text: str, limit: int) -> tuple[str, str]:
    spent, index = 0, 0
    for character in text:
        spent += units(escape(character))
        if spent > limit:
            break
        index += 1
    kept = text[: _last_boundary(text, index)]
    return kept, escape(kept)


_LIVE = re.compile(r"[<>]|&(?=(?:amp|lt|gt);)|:(?!(?<=\d:)\d\d:)(?=[a-z0-9_+'-]+:)", re.ASCII)  # 12:00:00 is no emoji
_LOOKALIKE = {"<": "‹", ">": "›", "&": "＆", ":": "꞉"}


def plain(text: str, limit: int) -> str:
    """A supplied text for plain text on one line. Never empty, since Slack refuses that. Plain text is not interpreted,
    but clients have decoded entities in it, so what would be markup elsewhere is replaced by look-alikes."""
    shown = _LIVE.sub(lambda found: _LOOKALIKE[found.group()], visible(text[: limit + _MARGIN]).strip())
    return fit(shown or "(empty)", limit).text


_FORMATTING = re.compile(r"`|(?<!\w)[*_~]|[*_~](?!\w)|@(?=\w)|:(?=//)|(?<=www)\.")


def prose(text: str, limit: int) -> str:
    """A sentence that may quote somebody, on one line, without any markup."""
    return _FORMATTING.sub(lambda found: _LOOKALIKE_MARKS[found.group()], plain(text, limit))


_LOOKALIKE_MARKS = {"*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ", "@": "＠", ":": "꞉", ".": "․"}
