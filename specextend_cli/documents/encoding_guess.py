"""The encoding of a text that is not UTF-8 and declares none: by its bytes, and by the letters that it would have.

In the scripts of Asia, and in Arabic, Cyrillic, Greek, Hebrew and Thai, letters beyond ASCII follow one another; in
Latin script they stand among others.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

_SAMPLE = 1 << 16  # bytes
_LINE = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")
_SHORT_RUN, _RUN = re.compile(rb"[\x80-\xff]{2,}"), re.compile(rb"[\x80-\xff]{4,}")
_SHORT_RUNS, _RUNS = 0.7, 0.5  # of the bytes beyond ASCII: fewer follow one another in Latin script
_ENOUGH = 20  # bytes beyond ASCII that are enough for a share of short runs
_KANA = re.compile("[\u3041-\u3096]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_COMMON_HAN = re.compile(
    "[的一是不了在人有我他她這这中大來来上國国個个到說说們们為为子和你地出道也時时年得就那要下以生會会自去之過过家學学對对可]"
)
_LEAST_KANA, _LEAST_HANGUL, _LEAST_HAN = 0.15, 0.8, 0.06  # of the characters beyond ASCII
_RUSSIAN = "оеаинтсрвл"
_FREQUENT = {  # the most frequent letters of a script, in each of its encodings
    **dict.fromkeys(("cp1251", "koi8-u", "cp866", "iso8859-5", "mac_cyrillic"), frozenset(_RUSSIAN)),
    **dict.fromkeys(("cp1253", "iso8859-7"), frozenset("αοιετσνηυρ")),
    **{"cp1255": frozenset("יוהלארתבשמ"), "cp1256": frozenset("ايلنموتربع"), "cp874": frozenset("านรอกเงมยล")},
}
_LEAST_FREQUENT = 0.45  # of the characters beyond ASCII
_LATIN = ("cp1252", "mac_roman", "cp850", "cp1250", "iso8859-2")  # of equals the first is taken
_LEAST_ODD = 2
_ODD = re.compile(
    r"(?<=[^\W\d_])[\x80-\x9f¡-©«-®¯-´¶-¹»-¿“”„†‡‰‹›€™∂∑∏∫Ω√≈∆◊─-▟\ufffd](?=[^\W\d_])|(?<=[a-zß-öø-ÿ])[À-ÖØ-ÞŸŠŽŒ]"
)
_NAMES = {
    **{"gb18030": "GB 18030", "big5hkscs": "Big5", "cp932": "Shift JIS", "euc_jp": "EUC-JP", "cp949": "EUC-KR"},
    **{"koi8-u": "KOI8", "cp866": "code page 866", "cp850": "code page 850", "cp874": "Windows-874"},
    **{"mac_roman": "Mac Roman", "mac_cyrillic": "Mac Cyrillic", "iso2022_jp": "ISO-2022-JP"},
}


class Guess(NamedTuple):
    """A Python codec, and what people call the encoding."""

    codec: str
    name: str


def guess_encoding(data: bytes) -> Guess:
    """The likeliest encoding; Windows-1252 where nothing speaks for another one."""
    sample = b""
    for line in _LINE.finditer(data):
        sample += line[0][: _SAMPLE - len(sample)]
        if len(sample) >= _SAMPLE:
            break
    high = sum(byte > 0x7F for byte in sample)
    short, long = (sum(len(run[0]) for run in runs.finditer(sample)) for runs in (_SHORT_RUN, _RUN))
    follow = long >= _RUNS * high or (high >= _ENOUGH and short >= _SHORT_RUNS * high)
    return _named((_asian(sample) or _by_letters(sample) if follow else None) or _latin(sample))


def _named(codec: str) -> Guess:
    return Guess(codec, _NAMES.get(codec) or codec.replace("cp", "Windows-").replace("iso", "ISO "))


def _decoded(sample: bytes, codec: str) -> str:
    """The characters beyond ASCII of a sample, whose last character may be cut; "" where it is invalid."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(sample)
    except UnicodeDecodeError:
        return ""
    return "".join(character for character in text if character > "\x7f")


def _share(letters: re.Pattern[str], text: str) -> float:
    return len(letters.findall(text)) / max(len(text), 1)


def _asian(sample: bytes) -> str | None:
    texts = {codec: _decoded(sample, codec) for codec in ("euc_jp", "cp932", "cp949", "gb18030", "big5hkscs")}
    kana = {codec: _share(_KANA, texts[codec]) for codec in ("euc_jp", "cp932")}
    if max(kana.values()) >= _LEAST_KANA:
        return max(kana, key=kana.__getitem__)
    if _share(_HANGUL, texts["cp949"]) >= _LEAST_HANGUL:
        return "cp949"
    han = {codec: _share(_COMMON_HAN, texts[codec]) for codec in ("gb18030", "big5hkscs")}
    best = max(han, key=han.__getitem__)
    return best if han[best] >= _LEAST_HAN else None


def _by_letters(sample: bytes) -> str | None:
    shares = {}
    for codec, letters in _FREQUENT.items():
        text = [character for character in sample.decode(codec, "replace") if character > "\x7f"]
        shares[codec] = sum(character in letters for character in text) / max(len(text), 1)
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _LEAST_FREQUENT else None


def _latin(sample: bytes) -> str:
    """The encoding with the fewest signs and capitals within words."""
    odd = {codec: len(_ODD.findall(sample.decode(codec, "replace"))) for codec in _LATIN}
    return min(odd, key=odd.__getitem__) if odd["cp1252"] >= _LEAST_ODD else "cp1252"
