"""In which language a text is."""

from __future__ import annotations

import pytest

from specextend_cli.summarize.words import NAMES, language_of

TEXTS = {
    "ar": "تقع محافظة الوادي الأخضر في شمال البلاد، وقد أُنشئت على الساحل من قبل.",
    "cs": "Město leží na řece a má most, který se stavěl od roku 1871 do roku 1890, ale není dokončen.",
    "da": "Byen ligger ved en flod, og den har en bro, der blev bygget af fiskere, men den er ikke færdig.",
    "de": "Die Stadt liegt am Fluss und hat eine Brücke, die nicht von der Stadt gebaut wurde.",
    "el": "Η πόλη ιδρύθηκε το 1987 και έχει μια γέφυρα, που δεν είναι από την εποχή των Ρωμαίων.",
    "en": "The city lies on a river and has a bridge that was not built by the city.",
    "es": "La ciudad está en la orilla del río y tiene un puente que no fue construido por la ciudad.",
    "fi": "Kaupunki on joen rannalla, ja siellä on silta, joka ei ole valmis, mutta se on kaunis.",
    "fr": "La ville est au bord du fleuve et a un pont qui n'est pas dans le plan de la région.",
    "hi": "सोनपुर जिला गंगा नदी के संगम पर बसा है और अपने मेले के लिए प्रसिद्ध है।",
    "it": "La città è sulla riva del fiume e ha un ponte che non è stato costruito dalla città.",
    "ja": "みなと市は瀬戸内海に面した港町であり、江戸時代から廻船問屋で栄えた。",
    "ko": "한빛군은 1914년에 세 고을을 합쳐 만든 군이다.",
    "nl": "De stad ligt aan de rivier en heeft een brug die niet door de stad is gebouwd.",
    "pl": "Miasto leży na rzece i ma most, który nie jest z kamienia, ale się nie zawalił od lat.",
    "pt": "A cidade fica na margem do rio e tem uma ponte que não foi construída pela cidade.",
    "ru": "Город стоит на реке, и в нём есть мост, который не был построен городом.",
    "sv": "Staden ligger vid en flod och har en bro som inte är byggd av staden.",
    "th": "เทศบาลเมืองบางน้ำใสตั้งอยู่ริมแม่น้ำท่าจีน",
    "tr": "Şehir nehrin kıyısında ve bir köprüsü var, ancak bu köprü daha sonra yapılmış olan bir köprüdür.",
    "uk": "Місто стоїть на річці, і в ньому є міст, що не був збудований містом за рік.",
    "vi": "Huyện nằm ở hạ lưu sông Tiền và có một cây cầu được xây cho người dân từ năm 1976.",
    "zh": "临江市位于长江南岸，建城已有一千三百多年。",
}


@pytest.mark.parametrize("code", list(TEXTS))
def test_languages_are_told_apart(code: str) -> None:
    assert language_of(TEXTS[code]) == code
    assert code in NAMES


@pytest.mark.parametrize("text", ["", "12 34", "def f(a): return a", "Falcaster, Harbour Road 12", "Ōsaka and Kyōto"])
def test_what_says_nothing_is_taken_for_english(text: str) -> None:
    assert language_of(text) == "en"


def test_names_in_another_script_do_not_make_a_text_foreign() -> None:
    assert language_of(f"{TEXTS['en']} It is called 临江 in Chinese and みなと in Japanese.") == "en"
