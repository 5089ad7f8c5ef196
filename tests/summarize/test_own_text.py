"""Where a model is not to be believed, or a text is short, the text itself is printed, and the user is told."""

from __future__ import annotations

import json

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.errors import UsageError
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.summarize.events import Summary, Warned
from specextend_cli.summarize.request import SummaryRequest, SummarySettings
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.results import format_footer, summary_record
from tests.helpers.flat_options import flat_options
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import guided, text, write

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


@pytest.fixture
def preset(presets):
    """One whose words are not believed."""
    path = write(presets["one"].parent / "doubted.toml")
    path.write_text('mode = "extractive"\n' + path.read_text())
    return path


def warnings(events) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def lies() -> Scribe:
    return Scribe(lambda prompt, most: INVENTED)


def assert_own_text(summary: Summary, source: Document) -> None:
    """Every sentence is the document's, and cites itself."""
    assert summary.text
    assert summary.sentences
    assert not summary.unsupported
    for sentence in summary.sentences:
        (citation,) = sentence.citations
        assert sentence.text.removeprefix("- ").removesuffix("…") in source.text[citation.start : citation.end]


@pytest.mark.parametrize("source", [CHINESE, PORTUGUESE, HINDI, ARABIC, THAI, TODO], ids=lambda text: text[:8])
@pytest.mark.parametrize("style", ["paragraph", "bullets", "tldr", "outline", "abstract"])
def test_nothing_is_invented_about_any_text(preset, source, style) -> None:
    read = document(source)
    summary, events = run(summarizer(preset, lies(), asked={"style": style}), read)
    body = "".join(summary.text.split())
    assert not any(word in body for word in ("Ingeborg", "Olympic", "Haiyang"))
    assert summary.method in ("extractive", "lead")
    assert (summary.method == "lead") == any("first" in message for message in warnings(events))
    if style != "outline":
        assert_own_text(summary, read)


def test_chinese_sentences_have_no_spaces_between_them(preset) -> None:
    summary, _ = run(summarizer(preset, lies(), asked={"style": "abstract", "length": 80}), document(CHINESE))
    assert " " not in summary.text
    assert len(summary.sentences) > 1


@pytest.mark.parametrize(
    "source", ["hello world", "Buy milk\nCall the plumber\nReturn the books", "。", "!", "你好，世界。"]
)
@pytest.mark.parametrize("style", ["paragraph", "tldr", "abstract"])
@pytest.mark.parametrize("doubted", [True, False])
def test_what_is_shorter_than_its_summary_is_printed_as_it_is(presets, preset, source, style, doubted) -> None:
    scribe = Scribe(lambda prompt, most: "The")
    made = summarizer(preset if doubted else presets["one"], scribe, asked={"style": style})
    summary, events = run(made, document(source))
    assert summary.text == source
    assert summary.method == "verbatim"
    assert not scribe.prompts
    assert summary.coverage.complete
    (message,) = warnings(events)
    assert "as it is" in message
    record = json.loads(json.dumps(summary_record(summary)))
    assert (record["mode"], record["warnings"]) == ("verbatim", [message])


def test_a_list_of_what_is_printed_whole(preset) -> None:
    summary, _ = run(
        summarizer(preset, lies(), asked={"style": "bullets"}), document("Buy milk\n- Call Ann\nPay the rent")
    )
    assert summary.text == "- Buy milk\n- Call Ann\n- Pay the rent"
    summary, _ = run(summarizer(preset, lies(), asked={"length": 100}), document(text(6)))
    assert summary.text == text(6)
    assert summary.method == "verbatim"


@pytest.mark.parametrize("style", ["bullets", "outline"])
def test_only_an_items_own_mark_gives_way_to_the_styles(preset, style) -> None:
    source = "- More is shown in appendix I. a\n2) Golden towers - city of stone"
    summary, _ = run(summarizer(preset, lies(), asked={"style": style}), document(source))
    kept = ["More is shown in appendix I. a", "Golden towers - city of stone"]
    marks = ["- "] * 2 if style == "bullets" else ["1. ", "   - "]
    assert summary.text.split("\n") == [mark + line for mark, line in zip(marks, kept, strict=True)]


def test_what_needs_a_model_is_written_however_short_the_text(preset) -> None:
    for asked in ({"template": "Translate {document}"}, {"template": "A haiku on {document}", "length": 100}):
        summary, _ = run(
            summarizer(preset, Scribe(lambda prompt, most: "Salut."), asked=asked), document("hello world")
        )
        assert (summary.text, summary.method) == ("Salut.", "abstractive")


@pytest.mark.parametrize("asked", [{"mode": "abstractive"}, {"template": "A haiku on {document}"}])
def test_the_words_of_a_model_that_is_not_believed_come_with_a_warning(presets, asked) -> None:
    summary, events = run(summarizer(guided(presets["one"].parent), lies(), asked=asked), document(text(12)))
    assert summary.text == INVENTED
    (message,) = warnings(events)
    assert "check them" in message
    assert summary.warnings == (message,)
    believed = summarizer(presets["one"], lies(), asked=asked)
    assert not warnings(run(believed, document(text(12)))[1])


def test_the_footer_says_whose_sentences_they_are(presets) -> None:
    path = guided(presets["one"].parent)

    def footer(source: str, **asked: str) -> str:
        return format_footer(run(summarizer(path, lies(), asked=asked), document(source))[0])

    assert "Sentences of the source, chosen with guided" in footer(text(12))
    assert "Sentences of the source, chosen without a model" in footer(text(12), mode="extractive")
    assert "first sentences of the source" in footer(TODO)
    assert "The source as it is" in footer("hello world")
    assert "Written by" in footer(text(12), mode="abstractive")


def test_the_embedded_pair_answers_no_question_in_its_own_words() -> None:
    with pytest.raises(UsageError, match=f"preset {DEFAULT} does not take --focus") as refused:
        Summarizer(flat_options(focus="Who pays?", mode="abstractive"))
    assert "--model" in refused.value.fix
    for mode in (None, "guided", "extractive"):
        assert Summarizer(flat_options(focus="Who pays?", mode=mode)).request.focus == "Who pays?"


def test_a_short_summary_is_not_asked_for_in_many_prompts(presets) -> None:
    three = load_preset(presets["three"])

    def parts(**asked) -> int:
        return SummarySettings(three, SummaryRequest(**asked)).summary_parts

    assert [parts(length=n) for n in (5, 20, 36, 90)] == [1, 2, 3, 3]
    assert parts(style="tldr") == 1
    assert parts(style="abstract") == 1
