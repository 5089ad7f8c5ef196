"""In which language a text is, by its script and by the small words that each language has most of."""

from __future__ import annotations

from collections import Counter

import regex

NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""The languages that are told apart, by their codes (ISO 639-1)."""
_SMALL_WORDS = {
    code: words.split()
    for code, words in {
        "ar": "في من على إلى أن عن التي الذي ما لا هذا هذه كان مع ذلك بين كما",
        "cs": "se na je že do to jako pro ale po byl jsou které který podle není",
        "da": "og at er en til af det på for den der som med de ikke et har blev også",
        "de": "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch",
        "el": "και το να του η της με που την από για στο δεν τα ο είναι των στη θα οι τους",
        "en": "the of and to in is that for it on as with are be by this at from or was",
        "es": "de la que el en los del se las por un con una para no es su al lo",
        "fa": "و در به از که این را با است برای آن یک تا بر شد های می خود",
        "fi": "ja on ei se että oli joka ovat mutta myös kun hän tai ole sen niin kuin jotka ovat",
        "fr": "de la le et les des en un du une que est pour qui dans par plus sur ne au",
        "he": "של את על לא הוא כי גם זה עם היא או אבל יש כל בין אם",
        "hi": "के में की है से और का को पर ने हैं यह भी एक नहीं कि था लिए",
        "hu": "az és hogy nem is egy ez meg volt van de csak mint ki el ha még azt már",
        "id": "yang dan di dengan untuk dari ini pada tidak dalam itu adalah akan oleh ke sebagai juga",
        "it": "di il la che in per un del non una le con della si da al dei nel alla",
        "nl": "de van het een en in is dat op te zijn met voor niet die aan er om als ook",
        "no": "og er det på som en for av til med at den har ikke de et fra ble",
        "pl": "na się nie do to jest że jak od za po przez ale są dla czy oraz który które także",
        "pt": "de que do da em um para com não uma os no se na por mais as dos pelo pela ao",
        "ro": "de și în la cu pe din care că nu un este pentru se mai sunt fost al",
        "ru": "и в не на что с по как это из к за от для а но то у о же его",
        "sv": "och att det som en på är av för med till den har de inte om ett från var",
        "tr": "ve bir bu için da de ile olarak olan ise daha çok gibi en ancak kadar sonra veya ama olduğu her",
        "uk": "і в на не що з та до як це за від для у й а але із про його",
        "vi": "và của có là các được cho trong một không với đã người những từ này để khi bị",
    }.items()
}
_SCRIPTS = {
    code: regex.compile(letters)
    for code, letters in {
        "ja": r"[\p{Hiragana}\p{Katakana}]",
        "zh": r"\p{Han}",
        "ko": r"\p{Hangul}",
        "th": r"\p{Thai}",
    }.items()
}
"""What languages without small words between spaces are told by."""
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_SAMPLE = 50_000  # characters that are looked at
_SCRIPT = 0.15  # of the letters, at least; Japanese has so many syllables between the characters of Chinese
_LEAST = 0.05  # of the words, at least: tables and code have fewer
_MORE = 1.5  # times as many words as English has of its own, at least


def language_of(text: str) -> str:
    """The code of a text's language; "en" where neither script nor words say that it is another one."""
    sample = text[:_SAMPLE]
    if not sample.isascii():
        letters = len(regex.findall(r"\p{L}", sample))
        for code, script in _SCRIPTS.items():
            if len(script.findall(sample)) > _SCRIPT * letters:
                return code
    counts = Counter(_WORD.findall(sample.lower()))
    shares = {code: sum(counts[word] for word in words) for code, words in _SMALL_WORDS.items()}
    best = max(shares, key=lambda code: shares[code])
    return best if shares[best] > max(_LEAST * counts.total(), _MORE * shares["en"]) else "en"
