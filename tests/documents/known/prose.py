"""Sentences that are all different, with words long enough to be divided, compounds, names, figures and ligatures."""

from __future__ import annotations

from random import Random

_PEOPLE = (
    *("Ada Miller", "Thomas Wright", "Grégory Marié", "José Fernández", "Ruth Oakley", "Klaus Brückner", "Mary-Ann Shaw"),
    *("Deputy Commissioner Hale", "Dr. Winifred Pryce", "Councillor Osborne", "Justice Whitfield", "Señora Ibáñez"),
)
_PLACES = (
    *("Northgate", "Upper Fennimore", "the Harrowdale valley", "Millbrook", "Saint-Rémy", "Great Offley", "Kirkhaven"),
    *("the lower Ettrick", "Wexcombe", "Tollbridge", "the southern district", "Ashford-on-Weir", "Brackwater"),
)
_THINGS = (
    *("administration of the waterworks", "long-term maintenance agreement", "investigation", "hydrological observatory"),
    *("compensation for the affected families", "electricity supply", "reconstruction of the embankment", "inspectorate"),
    *("third-party insurance", "official correspondence", "self-recording instrument", "transportation authority"),
    *("workflow of the measuring office", "interdepartmental committee", "well-being of the residents", "precipitation"),
    *("cross-border navigation", "classification of the sediments", "refurbishment of the filters", "communication line"),
    *("environmental assessment", "low-lying farmland", "representation of the leaseholders", "infrastructure"),
)
_QUALITIES = (
    *("considerable", "insufficient", "extraordinarily difficult", "provisional", "well-documented", "unprecedented"),
    *("fundamentally different", "comparatively inexpensive", "final", "well-established", "disproportionate", "flexible"),
    *("internationally recognized", "far-reaching", "administrative", "technologically advanced", "responsible"),
)
_VERBS = (
    *("investigated", "recommended", "underestimated", "reorganized", "acknowledged", "supplemented", "characterized"),
    *("contradicted", "strengthened", "superseded", "accelerated", "redistributed", "documented", "affected", "defined"),
)
_UNITS = ("kilometres", "households", "thousand dollars", "cubic metres", "observations", "certificates", "days", "vessels")
_CLAUSES = (
    *("although nobody had anticipated the circumstances", "because the measurements were independently confirmed"),
    *("while the neighbouring municipalities hesitated", "which the representatives considered satisfactory"),
    *("so that the superintendent could reconsider the schedule", "even though the underlying figures were unofficial"),
    *("whenever the atmospheric conditions were favourable", "as the predecessors of the committee had suggested"),
    *("until sufficient financial contributions were available", "provided that the five offices find a workable answer"),
)
_TEMPLATES = (
    "{who} {verb} the {quality} {thing} in {year}, {clause}.",
    "In {place}, the {thing} {verb} {number} {unit} within {small} months.",
    "According to {who}, the {thing} was {quality}, and {number} {unit} were {verb} before the end of {year}.",
    "“The {thing} is {quality},” wrote {who} to {person2}, “and it concerns {number} {unit}.”",
    "The {thing} (see the report of {year}) {verb} the {thing2} of {place}, {clause}.",
    "About {percent}% of the {unit} in {place} were {quality}; the others were {verb} by {who}.",
    "It cost ${number} to replace the {thing}, {clause}.",
    "Between {year} and {year2}, {person2} and {who} {verb} the {thing}, the {thing2} and {number} {unit}.",
    "Nevertheless, {place} remained {quality} for {small} years, {clause}, and {who} resigned.",
    "What the {thing} had {verb} in {year} was not the {thing2} but {number} {unit} near {place}.",
    "The inhabitants of {place} described the {thing} as {quality}, {clause}.",
    "Without the {thing}, {who} argued, {place} would have lost {number} {unit}.",
)
_TITLES = (
    *("Responsibilities of the {thing}", "Findings near {place}", "Observations after {year}", "Recommendations for {place}"),
    *("Background of the {thing}", "How {place} Measured the Water", "Expenditure until {year}", "Methods and Instruments"),
    *("Consequences for {place}", "A Comparison with {year}", "Open Questions", "Summary of the Evidence"),
)
GERMAN = (
    "Die Wasserstandsvorhersage für {number} Gemeinden wurde im Jahr {year} von {who} grundsätzlich überarbeitet.",
    "Außerdem beschloss die Bezirksverwaltung, {number} Überschwemmungsgebiete zu veröffentlichen, bevor {who} zurücktrat.",
    "„Größere Schäden“, schrieb {who} im Frühjahr {year}, „ließen sich durch {small} Schöpfwerke verhüten.“",
    "Nach {small} Jahren übernahm die Genossenschaft {number} Grundstücke, obwohl der Beschwerdeausschuss widersprach.",
)
FRENCH = (
    "En {year}, {who} a présenté à l’assemblée départementale {number} propositions concernant les digues.",
    "Le préfet de la région n’a reçu que {number} réponses, bien que {who} eût déjà protesté à plusieurs reprises.",
    "« Les inondations de {year} étaient prévisibles », écrivait {who} après {small} années d’observations régulières.",
    "Malgré l’opposition des propriétaires, la municipalité a acquis {number} hectares en {year} pour y élever un réservoir.",
)
ARABIC = (
    "أعلنت إدارة المياه في المدينة عن خطة جديدة لحماية {number} قرية من الفيضانات.",
    "قال المهندس المسؤول إن مستوى النهر ارتفع خلال {small} أيام بعد الأمطار الغزيرة.",
    "سجلت المحطة في عام {year} أعلى منسوب للمياه منذ بداية القياسات المنتظمة.",
    "طلب المجلس من السكان أن يغادروا {number} منزلا قبل وصول المياه إلى الطريق.",
    "لا تزال اللجنة تدرس {number} اقتراحا لبناء سد صغير عند مدخل الوادي.",
)
HEBREW = (
    "רשות המים הודיעה על תוכנית חדשה להגנה על {number} בתים מפני שיטפונות.",
    "המהנדסת אמרה כי מפלס הנהר עלה במשך {small} ימים לאחר הגשמים הכבדים.",
    "התחנה מדדה בשנת {year} את המפלס הגבוה ביותר מאז תחילת המדידות.",
    "המועצה ביקשה מהתושבים לעזוב {number} דירות לפני שהמים יגיעו לכביש.",
    "הוועדה עדיין בוחנת {number} הצעות לבניית סכר קטן בכניסה לעמק.",
)


class Prose:
    """Text from a seed; no sentence, title or item is part of another one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._said: set[str] = set()

    def _filled(self, template: str) -> str:
        pick, random = self.random.choice, self.random
        return template.format(
            who=pick(_PEOPLE),
            person2=pick(_PEOPLE),
            place=pick(_PLACES),
            thing=pick(_THINGS),
            thing2=pick(_THINGS),
            quality=pick(_QUALITIES),
            verb=pick(_VERBS),
            unit=pick(_UNITS),
            clause=pick(_CLAUSES),
            number=f"{random.randrange(1_000, 99_999):,}",
            percent=f"{random.randrange(10, 999) / 10}",
            small=random.randrange(2, 90),
            year=random.randrange(1850, 1940),
            year2=random.randrange(1940, 1999),
        )

    def _new(self, templates: tuple[str, ...]) -> str:
        while (text := self._filled(self.random.choice(templates))) in self._said:
            pass
        self._said.add(text)
        return text[0].upper() + text[1:]

    def sentence(self, templates: tuple[str, ...] = _TEMPLATES) -> str:
        return self._new(templates)

    def paragraph(self, sentences: int, templates: tuple[str, ...] = _TEMPLATES) -> list[str]:
        return [self._new(templates) for _ in range(sentences)]

    def title(self) -> str:
        return self._new(_TITLES)

    def item(self) -> str:
        """The text of a list's item: no sentence, or a short one."""
        return self._new(("{quality} {thing} of {number} {unit}", "{verb} by {who} in {year}", "{small} {unit} for {place}"))

    def words(self, least: int = 2, most: int = 5) -> str:
        """A phrase."""
        words = self._filled("{quality} {thing} near {place} {clause}").split()
        return " ".join(words[: self.random.randint(least, most)])

    def figure(self) -> str:
        """A figure as in a table's cell."""
        random = self.random
        forms = ("{:,}", "{:.1f}%", "({:,})", "${:,}", "{}")
        number = random.randrange(10, 60_000)
        form = random.choice(forms)
        return form.format(number / 100 if "f" in form else number)

    def name(self) -> str:
        return self.random.choice(_PEOPLE)

    def place(self) -> str:
        place = self.random.choice(_PLACES)
        return place[0].upper() + place[1:]
