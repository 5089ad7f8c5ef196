"""Where a model is not to be believed, or a text is short, the text itself is printed, and the user is told."""

from __future__ import annotations

import json

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.summarize.events import Warned
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.results import format_footer, summary_record
from tests.summarize.scribe import Scribe, document, quote, run, summarizer
from tests.summarize.tiny_preset import text

INVENTED = "In 2024, Queen Ingeborg opened the Olympic Games in Haiyang. She was cheered by 120,000 people."
CHINESE = """\
2024年7月，长江中下游地区遭遇持续强降雨，多个城市发生严重洪涝灾害。湖北省武汉市三天内降雨量达到420毫米，创下近二十年来的最高纪录。\
市政府启动了一级应急响应，转移群众超过三万人。

消防救援队连续工作四十八小时，从被淹没的居民楼中救出了1200名被困人员。许多志愿者自发组织起来，为灾民送去食物和饮用水。\
专家指出，城市排水系统老化是造成内涝的主要原因之一。"""
PORTUGUESE = """\
A ponte sobre o rio Douro liga as cidades do Porto e de Vila Nova de Gaia. Foi projetada por um antigo sócio de \
Gustave Eiffel. A construção demorou cinco anos e custou mais do que o previsto. O tabuleiro superior serve hoje a \
linha de metro. Durante décadas, a ponte foi a principal ligação rodoviária entre as duas margens. Os comerciantes da \
Ribeira protestaram contra as obras, que duraram quase dois anos."""
HINDI = """\
हिमालय की नदियों में पिछले दशक में जल स्तर तेजी से घटा है। वैज्ञानिकों ने बताया कि ग्लेशियर हर वर्ष पंद्रह मीटर पीछे हट रहे हैं। \
किसानों ने इस योजना का स्वागत किया, लेकिन उन्होंने कहा कि काम बहुत धीमा है। \
कई गाँवों में महिलाएँ रोज पाँच किलोमीटर चलकर पानी लाती हैं।"""
ARABIC = """\
أعلنت وزارة المياه أن منسوب النهر انخفض بنسبة ثلاثين في المئة خلال العام الماضي. \
هل تكفي الخزانات الحالية لتلبية احتياجات المدن؟ \
تشير الدراسات إلى أن الخزانات ستنفد إذا لم تتغير طرق الري. \
ويعترض بعض المزارعين على المشروع لأنهم يخشون تلوث المحاصيل."""
THAI = """\
กรุงเทพมหานครประสบปัญหาน้ำท่วมซ้ำซากทุกปี เนื่องจากพื้นที่ส่วนใหญ่อยู่ต่ำกว่าระดับน้ำทะเล \
โรงงานหลายแห่งในจังหวัดพระนครศรีอยุธยาต้องหยุดการผลิต \
รัฐบาลจึงจัดทำแผนบริหารจัดการน้ำระยะยาว โดยสร้างอุโมงค์ระบายน้ำขนาดใหญ่หลายแห่ง นักวิชาการเห็นว่าควรเพิ่มพื้นที่สีเขียวเพื่อรองรับน้ำฝน"""
TODO = "\n".join(f"- item {n} of the list, number {n * 7}" for n in range(12))


def warnings(events) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize("source", [CHINESE, PORTUGUESE, HINDI, ARABIC, THAI, TODO], ids=lambda text: text[:8])
@pytest.mark.parametrize("style", ["paragraph", "bullets", "tldr", "abstract"])
def test_every_sentence_is_the_documents_and_cites_itself(source, style) -> None:
    summary, events = quote(document(source), style=style, length=25 if style != "tldr" else None)
    assert summary.method in ("extractive", "lead")
    assert (summary.method == "lead") == any("first" in message for message in warnings(events))
    assert summary.sentences
    assert not summary.unsupported
    for sentence in summary.sentences:
        (citation,) = sentence.citations
        assert sentence.text.removeprefix("- ").removesuffix("…") in source[citation.start : citation.end]


def test_chinese_sentences_have_no_spaces_between_them() -> None:
    summary, _ = quote(document(CHINESE), style="abstract", length=80)
    assert " " not in summary.text
    assert len(summary.sentences) > 1


@pytest.mark.parametrize(
    "source", ["hello world", "Buy milk\nCall the plumber\nReturn the books", "。", "!", "你好，世界。"]
)
@pytest.mark.parametrize("style", ["paragraph", "tldr", "abstract"])
@pytest.mark.parametrize("mode", ["extractive", "abstractive"])
def test_what_is_shorter_than_its_summary_is_printed_as_it_is(presets, source, style, mode) -> None:
    scribe = Scribe(lambda prompt, most: "The")
    summary, events = run(summarizer(presets["one"], scribe, asked={"style": style, "mode": mode}), document(source))
    assert summary.text == source
    assert summary.method == "verbatim"
    assert not scribe.prompts
    assert summary.coverage.complete
    (message,) = warnings(events)
    assert "as it is" in message
    record = json.loads(json.dumps(summary_record(summary)))
    assert (record["mode"], record["warnings"]) == ("verbatim", [message])


def test_a_list_of_what_is_printed_whole() -> None:
    """Only an item's own mark gives way to the style's."""
    assert quote(document("Buy milk\n- Call Ann\nPay the rent"), style="bullets")[0].text == (
        "- Buy milk\n- Call Ann\n- Pay the rent"
    )
    source = "- More is shown in appendix I. a\n2) Golden towers - city of stone"
    assert quote(document(source), style="bullets")[0].text == (
        "- More is shown in appendix I. a\n- Golden towers - city of stone"
    )
    assert quote(document(text(6)), length=100)[0].text == text(6)


def test_what_needs_a_model_is_written_however_short_the_text(presets) -> None:
    for asked in ({"template": "Translate {document}"}, {"template": "A haiku on {document}", "length": 100}):
        made = summarizer(presets["one"], Scribe(lambda prompt, most: "Salut."), asked=asked)
        summary, _ = run(made, document("hello world"))
        assert (summary.text, summary.method) == ("Salut.", "abstractive")


@pytest.mark.parametrize("is_unreliable", [True, False])
def test_what_a_model_wrote_comes_with_a_warning_where_it_is_unreliable(presets, is_unreliable) -> None:
    made = summarizer(presets["one"], Scribe(lambda prompt, most: INVENTED))
    made.preset = made.preset.model_copy(update={"unreliable": is_unreliable})
    summary, events = run(made, document(text(12)))
    assert summary.text == INVENTED
    assert summary.warnings == tuple(warnings(events))
    assert ["check them; --mode extractive" in message for message in summary.warnings] == [True] * is_unreliable
    assert load_preset(DEFAULT).unreliable


def test_the_footer_says_whose_sentences_they_are(presets) -> None:
    assert "Sentences of the source, chosen without a model" in format_footer(quote(document(text(12)), length=36)[0])
    assert "first sentences of the source" in format_footer(quote(document(TODO), length=36)[0])
    assert "The source as it is" in format_footer(quote(document("hello world"))[0])
    assert "Written by one" in format_footer(run(summarizer(presets["one"]), document(text(12)))[0])


def test_the_embedded_pair_answers_no_question_in_its_own_words() -> None:
    with pytest.raises(UsageError, match=f"preset {DEFAULT} does not take --focus") as refused:
        Summarizer().check(Request(focus="Who pays?", mode="abstractive"))
    assert "--model" in refused.value.fix
