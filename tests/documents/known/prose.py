"""Sentences that are all different, with words long enough to be divided, compounds, names, figures and ligatures."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_WORDS = {
    "who": "Ada Miller|Grégory Marié|José Fernández|Klaus Brückner|Mary-Ann Shaw|Deputy Commissioner Hale|"
    "Dr. Winifred Pryce|Councillor Osborne|Señora Ibáñez",
    "place": "Northgate|Upper Fennimore|the Harrowdale valley|Saint-Rémy|Kirkhaven|the lower Ettrick|Wexcombe|"
    "Ashford-on-Weir|Brackwater",
    "thing": "administration of the waterworks|long-term maintenance agreement|investigation|hydrological observatory|"
    "compensation for the affected families|reconstruction of the embankment|third-party insurance|inspectorate|"
    "official correspondence|self-recording instrument|workflow of the measuring office|well-being of the residents|"
    "cross-border navigation|classification of the sediments|refurbishment of the filters|communication line|"
    "environmental assessment|low-lying farmland|representation of the leaseholders|infrastructure|precipitation",
    "quality": "considerable|insufficient|extraordinarily difficult|provisional|well-documented|unprecedented|flexible|"
    "final|comparatively inexpensive|disproportionate|internationally recognized|far-reaching|technologically advanced",
    "verb": "investigated|recommended|underestimated|reorganized|acknowledged|characterized|contradicted|superseded|"
    "redistributed|documented|affected|defined",
    "unit": "kilometres|households|thousand dollars|cubic metres|observations|certificates|days|vessels",
    "clause": "although nobody had anticipated the circumstances|because the measurements were independently confirmed|"
    "while the neighbouring municipalities hesitated|which the representatives considered satisfactory|"
    "so that the superintendent could reconsider the schedule|even though the underlying figures were unofficial|"
    "until sufficient financial contributions were available|provided that the five offices find a workable answer",
}
_TITLES = (
    "Responsibilities of the {thing}|Findings near {place}|Observations after {year}|Recommendations for {place}|"
    "Background of the {thing}|How {place} Measured the Water|Expenditure until {year}|Open Questions of {place}|"
    "A Comparison with {year}"
)
SENTENCES = (
    "{who} {verb} the {quality} {thing} in {year}, {clause}.",
    "In {place}, the {thing} {verb} {number} {unit} within {small} months.",
    "According to {who}, the {thing} was {quality}, and {number} {unit} were {verb} before the end of {year}.",
    "“The {thing} is {quality},” wrote {who} to {who2}, “and it concerns {number} {unit}.”",
    "The {thing} (see the report of {year}) {verb} the {thing2} of {place}, {clause}.",
    "About {percent}% of the {unit} in {place} were {quality}; the others were {verb} by {who}.",
    "It cost ${number} to replace the {thing}, {clause}.",
    "Nevertheless, {place} remained {quality} for {small} years, {clause}, and {who} resigned.",
    "What the {thing} had {verb} in {year} was not the {thing2} but {number} {unit} near {place}.",
)
_ITEMS = ("{quality} {thing} of {number} {unit}", "{verb} by {who} in {year}", "{small} {unit} for {place}")
GERMAN = (
    "Die Wasserstandsvorhersage für {number} Gemeinden wurde im Jahr {year} von {who} grundsätzlich überarbeitet.",
    "Außerdem beschloss die Bezirksverwaltung, {number} Überschwemmungsgebiete auszuweisen, bevor {who} zurücktrat.",
    "„Größere Schäden“, schrieb {who} im Frühjahr {year}, „ließen sich durch {small} Schöpfwerke verhüten.“",
)
ARABIC = (
    "أعلنت إدارة المياه في المدينة عن خطة جديدة لحماية {number} قرية من الفيضانات.",
    "قال المهندس المسؤول إن مستوى النهر ارتفع خلال {small} أيام بعد الأمطار الغزيرة.",
    "سجلت المحطة في عام {year} أعلى منسوب للمياه منذ بداية القياسات المنتظمة.",
    "طلب المجلس من السكان أن يغادروا {number} منزلا قبل وصول المياه إلى الطريق.",
)
HEBREW = (
    "רשות המים הודיעה על תוכנית חדשה להגנה על {number} בתים מפני שיטפונות.",
    "המהנדסת אמרה כי מפלס הנהר עלה במשך {small} ימים לאחר הגשמים הכבדים.",
    "התחנה מדדה בשנת {year} את המפלס הגבוה ביותר מאז תחילת המדידות.",
    "המועצה ביקשה מהתושבים לעזוב {number} דירות לפני שהמים יגיעו לכביש.",
)


class Prose:
    """Text from a seed; no sentence, title or item is part of another one."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self._said: set[str] = set()

    def _filled(self, template: str) -> str:
        pick, number = self.random.choice, self.random.randrange
        figures = {"number": f"{number(1_000, 99_999):,}", "percent": f"{number(10, 999) / 10}"}
        figures |= {"small": f"{number(2, 90)}", "year": f"{number(1850, 1940)}"}
        names = ("who", "who2", "place", "thing", "thing2", "quality", "verb", "unit", "clause")
        words = {name: pick(_WORDS[name.removesuffix("2")].split("|")) for name in names}
        return template.format(**words, **figures)

    def new(self, templates: Sequence[str]) -> str:
        """A text by one of the templates that was not there yet."""
        while (text := self._filled(self.random.choice(templates))) in self._said:
            pass
        self._said.add(text)
        return text[0].upper() + text[1:]

    def sentence(self) -> str:
        return self.new(SENTENCES)

    def title(self) -> str:
        return self.new(_TITLES.split("|"))

    def item(self) -> str:
        """The text of a list's item, which is no sentence."""
        return self.new(_ITEMS)

    def words(self, least: int, most: int) -> str:
        """A phrase of so many words."""
        words = self._filled("{quality} {thing} near {place} {clause}").split()
        return " ".join(words[: self.random.randint(least, most)])

    def figure(self) -> str:
        """A figure as in a table's cell."""
        form = self.random.choice(("{:,}", "{:.1f}%", "({:,})", "${:,}", "{}"))
        number = self.random.randrange(10, 60_000)
        return form.format(number / 100 if "f" in form else number)

    def name(self) -> str:
        return self.random.choice(_WORDS["who"].split("|"))

    def place(self) -> str:
        return self.random.choice(_WORDS["place"].split("|")).removeprefix("the ")
