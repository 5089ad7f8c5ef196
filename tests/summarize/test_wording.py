"""What hangs in the air, and what no summary needs, in languages other than English."""

from __future__ import annotations

import pytest
from specextend_cli.summarize.ranking.boilerplate import boilerplate
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.gains import recommends
from specextend_cli.summarize.ranking.selection import Selector

from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.readable import asks, is_whole, leans, printed
from tests.summarize.scribe import document

LEANING = {
    "de": "Dies kostet mehr.|Sein Vater schwieg.|Deshalb müssen die Pumpen laufen.|Aus diesem Grund ruht er.",
    "fr": "Elle gère 18 bibliothèques.|Or la métropole ne dispose d'aucun outil.|Cette baisse est forte.|Il conteste.",
    "es": "Esto se debe a que faltan datos.|Por eso pidieron préstamos.|Dicha cantidad no se pagó.",
    "it": "Ciò dipende dalla lentezza delle gare.|Essi sono chiusi.|Questo impedisce il tempo pieno.",
    "pt": "Isso mostra que a frequência é decisiva.|Por isso, o programa gastou o dobro.|Nas restantes não houve.",
    "nl": "Dit komt doordat er geld ontbreekt.|Hierdoor gaat het fout.|Zij kregen 3.100 meldingen.",
    "pl": "Dlatego szpitale mają długi.|Z tego powodu zamknięto oddziały.|Pozostałe zgłosiły zastrzeżenia.",
    "ru": "Это объясняется просто.|Поэтому рубки не наказаны.|Она была куплена давно.|Вследствие этого лес горит.",
    "tr": "Bunun sebebi masraftır.|Bu durum değişmedi.|Dolayısıyla destek yetmedi.",
    "el": "Αυτό οφείλεται στους δήμους.|Γι' αυτό η χώρα πληρώνει.|Συνεπώς τα τέλη αυξήθηκαν.",
    "zh": "这主要是因为资金没有到位。|它们的责任人已经移送。|其中，2022年仅完成11个。",
    "ja": "これは、職員が2人しかいないためである。|そのうち412戸は危ない。",
    "ko": "이는 군이 확인하지 않았기 때문이다.|그런데도 회사는 돈을 받았다.|이 점을 아쉬워한다.",
    "ar": "وهذا يفسر ضعف النتائج.|ومن ثم تُسند الدروس إلى متطوعين.",
    "hi": "इससे हर साल बच्चे बीमार पड़ते हैं।|इनमें से 48 नमूने विद्यालयों के थे।",
    "vi": "Điều này làm cho bờ kè đổ sập.|Họ đã quay về nhà cũ.",
}
STANDING = {
    "de": "Dieser Bericht fasst zusammen, was war.|Sie können das Gerät ausschalten.|Darüber hinaus fehlt Geld.",
    "fr": "Ce rapport porte sur les exercices 2017 à 2022.|Il faut fermer la bibliothèque.|Cour des comptes.",
    "es": "Este informe examina la gestión.|Esteban firmó el contrato.|Así como se firmó, se pagó.",
    "it": "La presente relazione è stata redatta ieri.|Questa relazione è breve.|Il primo ministro ha parlato.",
    "pt": "Este relatório avalia o programa.|As equipes foram ameaçadas.|A cidade fica longe.",
    "nl": "Dit rapport beschrijft de uitkomsten.|Deventer ligt aan de IJssel.",
    "pl": "Ten raport jest krótki.|Tekst umowy jest krótki.",
    "ru": "Этот отчёт охватывает 2017–2022 гг.|Итоги подведены.",
    "tr": "Bu rapor kısa bir belgedir.|Bursa büyük bir şehirdir.",
    "el": "Οι δήμοι πληρώνουν 142 ευρώ.|Αυτοκίνητα υπάρχουν πολλά.",
    "zh": "这份报告很短。|市政府同意上述建议。|此外，有38份合同。",
    "ja": "この報告書は短い。|市は補助金を用意している。",
    "ko": "이 보고서는 짧다.|이용자가 줄었다.|그림은 없다.",
    "ar": "هذا التقرير قصير.|تعمل المدارس بنظام الفترتين.",
    "hi": "इस रिपोर्ट में आँकड़े हैं।|विभाग ने भुगतान किया।",
    "vi": "Huyện đã chi 640 tỷ đồng.|Hội đồng đã họp.",
}


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(code, sentence) for code, sentences in table.items() for sentence in sentences.split("|")]


@pytest.mark.parametrize(("code", "sentence"), pairs(LEANING))
def test_what_refers_to_the_sentence_before_leans(code: str, sentence: str) -> None:
    assert leans(printed(sentence, code), code)


@pytest.mark.parametrize(("code", "sentence"), pairs(STANDING))
def test_what_stands_by_itself_does_not(code: str, sentence: str) -> None:
    assert not leans(printed(sentence, code), code)


@pytest.mark.parametrize(
    ("code", "sentence", "line"),
    [
        ("fr", "Par conséquent, les actifs ne peuvent s'y rendre.", "Les actifs ne peuvent s'y rendre."),
        ("es", "Por lo tanto, muchos pidieron préstamos.", "Muchos pidieron préstamos."),
        ("it", "Di conseguenza, i soldi sono tornati.", "I soldi sono tornati."),
        ("pt", "Além disso, 40% das vagas estão livres.", "40% das vagas estão livres."),
        ("pl", "Ponadto średni wiek wynosi 59 lat.", "Średni wiek wynosi 59 lat."),
        ("ru", "Тем не менее лесничество приняло работы.", "Лесничество приняло работы."),
        ("el", "Ωστόσο, δεν λειτούργησε ποτέ.", "Δεν λειτούργησε ποτέ."),
        ("zh", "因此，有63个小区停工。", "有63个小区停工。"),
        ("ja", "しかし、市は指導しなかった。", "市は指導しなかった。"),
        ("ko", "따라서 감사실은 잘못으로 본다.", "감사실은 잘못으로 본다."),
        ("vi", "Tuy nhiên, ban quản lý vẫn nghiệm thu.", "Ban quản lý vẫn nghiệm thu."),
        ("de", "Deshalb müssen die Pumpen laufen.", "Deshalb müssen die Pumpen laufen."),
        ("de", "Aber die Pumpen laufen.", "Die Pumpen laufen."),
    ],
)
def test_a_connective_is_left_out_where_the_rest_is_a_sentence(code: str, sentence: str, line: str) -> None:
    assert printed(sentence, code) == line


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("de", "Abbildung 3 zeigt das Alter der Leitungen nach Stadtteilen."),
        ("de", "Bei Fragen wenden Sie sich bitte an das Prüfungsamt."),
        ("fr", "Le graphique 4 présente l'évolution mensuelle des visites."),
        ("fr", "Toute reproduction, même partielle, est interdite sans autorisation."),
        ("fr", "DUPONT, J., Les bibliothèques et leurs publics, Paris, PUF, 2016, 312 p."),
        ("es", "El cuadro 2 muestra los plazos de cada una de ellas."),
        ("it", "Per ulteriori informazioni rivolgersi all'Ufficio studi della Provincia."),
        ("pt", "O gráfico 2 mostra a evolução por município do estado."),
        ("nl", "Voor meer informatie kunt u contact opnemen met de rekenkamer."),
        ("pl", "W razie pytań prosimy o kontakt pod numerem telefonu izby."),
        ("ru", "На рис. 3 показаны места рубок по спутниковым снимкам."),
        ("tr", "Şekil 2 su seviyesindeki değişimi ve kuyuları göstermektedir."),
        ("el", "Ο πίνακας 3 παρουσιάζει τα στοιχεία ανά δήμο."),
        ("zh", "图3显示了各区老旧小区改造的完成情况和进度。"),
        ("ja", "図2は地区ごとの空き家の数を示している資料である。"),
        ("ko", "그림 2는 노선별 운행률을 연도별로 보여 준다."),
        ("ar", "يوضح الشكل 2 توزيع المدارس حسب المناطق في المحافظة."),
        ("hi", "चित्र 2 में प्रखंडवार स्थिति दिखाई गई है।"),
        ("vi", "Hình 2 cho thấy các điểm sạt lở của huyện."),
    ],
)
def test_what_no_summary_needs(code: str, sentence: str) -> None:
    assert boilerplate(sentence, code) is not None
    assert not is_whole(sentence, code)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("de", "Die Pflicht folgt aus § 14 Abs. 2 der Verordnung vom 3. Mai (2011), Vol. 4."),
        ("de", "Alles an der Brücke war alt, sagte der Leiter."),
        ("de", "»Man hat sie gefällt, weil die Straße breiter werden musste«, sagt der Mann."),
        ("fr", "« Quand je sors du travail, tout est fermé », a déclaré une lectrice."),
        ("fr", "Un tableau de Monet a été vendu pour 3 millions."),
        ("hi", "214 गाँवों में पाइप बिछाए गए, लेकिन टंकी कभी नहीं बनी।"),
        ("ko", "주민들은 이 점을 무엇보다도 가장 아쉬워한다고 조사에서 대답하였다."),
        ("tr", "Belediye önerilere katıldığını yazılı olarak bildirmiştir."),
    ],
)
def test_what_a_summary_may_have(code: str, sentence: str) -> None:
    assert is_whole(sentence, code)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("de", "Das Prüfungsamt empfiehlt der Stadt, alle Anschlüsse zu ersetzen."),
        ("fr", "La chambre recommande à la métropole d'ouvrir le dimanche."),
        ("es", "La universidad debería reclamar el dinero de inmediato."),
        ("ru", "Палата рекомендует правительству ввести контроль."),
        ("zh", "审计局建议市政府追回资金。"),
        ("ja", "監査委員は職員を増やすよう求める。"),
    ],
)
def test_recommendations(code: str, sentence: str) -> None:
    assert recommends(sentence, code)


def test_a_greek_question_asks() -> None:
    assert asks("Τι έδειξε ο έλεγχος του Συνεδρίου;")


def test_an_initial_is_no_mark_of_a_list() -> None:
    assert printed("M. Bertin promit une aide.", "fr", listed=False) == "M. Bertin promit une aide."
    assert printed("M. Bertin promit une aide.", "fr") == "M. Bertin promit une aide."


PROSE = "Le conseil de la ville a acheté la station numéro {} pour un prix que personne ne connaît."


def test_what_stands_below_the_heading_of_references_is_no_candidate() -> None:
    book = "Les bibliothèques et leurs publics sont décrites dans ce livre de Dupont."
    text = "\n\n".join([*(PROSE.format(1871 + i) for i in range(9)), "Références bibliographiques de l'étude", book])
    assert book in usable(text)
    assert book not in usable(text.replace(" de l'étude", ""))


def usable(text: str) -> list[str]:
    source = document(text)
    found = candidates(source)
    selector = Selector(source.text, found, features(source.text, found)[1])
    return [source.text[one.start : one.end] for one, ok in zip(found, selector.usable, strict=True) if ok]


def test_sentences_without_spaces_are_compared_by_their_features() -> None:
    source = document(
        "".join(f"市内の空き家は{n}年間で{n}00戸から{n}50戸に増え、住宅全体の一割を占める。" for n in range(2, 9))
    )
    columns = features(source.text, candidates(source))[0]
    assert columns[:, 14:26].any()
