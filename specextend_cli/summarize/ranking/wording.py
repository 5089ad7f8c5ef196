"""How sentences that refer to the one before, or that no summary needs, are worded in languages other than English.

Each entry is an alternation of a regular expression. German and Dutch put the verb before the subject behind a
connective, so that none can be left out there: what refers to the sentence before counts as leaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import regex


@dataclass(frozen=True)
class Wording:
    """Patterns of one language: `joins` and `leans` at the beginning of a sentence, `advises` and `idle` anywhere.

    `this` leans, too, unless one of the words `itself` follows, by which a document names itself; `beside` are headings
    of what is not the text.
    """

    leans: str = ""
    this: str = ""
    itself: str = ""
    joins: str = ""
    beside: str = ""
    idle: str = ""
    advises: str = ""


_WORDINGS = {
    "de": Wording(
        leans=r"Er|Ihm|Ihnen|Seine?[mnrs]?|Sie(?! (?:können|müssen|sollten|sollen|dürfen|möchten|erhalten|finden"
        r"|benötigen|bitte)\b)|Deren|Dessen|Daher|Deshalb|Deswegen|Darum|Dadurch|Dabei|Damit|Dafür|Dagegen|Davon"
        r"|Danach|Daraufhin|Darunter|Darin|Daran|Daraus|Dazu|Darüber(?! hinaus)|Dort|Hierzu|Hierbei|Hierdurch|Hierfür"
        r"|Hieraus|Infolgedessen|Folglich|Somit|Demnach|Demzufolge|Insofern|Allerdings|Jedoch|Dennoch|Trotzdem"
        r"|Stattdessen|Andernfalls|Ansonsten|Hingegen|Letztere\w*|Erstere\w*|Beide|Denn|Sondern|Zweitens|Drittens"
        r"|Anschließend",
        this=r"Dies|Diese[rsmn]?|Solche[rsmn]?|(?:Aus|In|Bei|Mit|Nach|Zu|Von|Auf|An|Wegen|Trotz) diese[rsmn]",
        itself=r"Bericht|Studie|Dokument|Arbeit|Papier|Gutachten|Vertrag|Gesetz|Anleitung|Handbuch|Urteil|Buch",
        joins=r"(?:Aber|Und|Doch)(?= (?:d(?:ie|er|as|en|em)|eine?|kein\w*)\b)",
        beside=r"Literatur(?:verzeichnis|hinweise|angaben)?|Quellen(?:verzeichnis|angaben)?|Bibliogra(?:ph|f)ie"
        r"|Inhalt(?:sverzeichnis|sübersicht)?|Abkürzungen|Weiterführende Literatur|\w+(?:ungs|en|wort)verzeichnis"
        r"|Danksagung|Impressum|Haftungsausschluss|Rechtliche Hinweise|Kontakt|Fußnoten|Bildnachweise?"
        r"|Über (?:den Autor|die Autor(?:in|en))|Datenschutz(?:hinweise?)?",
        idle=r"^(?:Abbildung|Abb\.|Tabelle|Tab\.|Grafik|Schaubild|Anhang|Anlage) [\dIVXA-D][\w.]* (?:zeigt|enthält"
        r"|gibt|stellt|fasst|listet|veranschaulicht)(?!,)|^Im (?:folgenden|nächsten) (?:Abschnitt|Kapitel)|^(?:Dieser"
        r"|Der (?:folgende|nächste)) Abschnitt|^(?:Dieses|Das (?:folgende|nächste)) Kapitel|Alle Rechte vorbehalten"
        r"|^(?:Nachdruck|Vervielfältigung)\b|^(?:Bei|Für) (?:Rück|An)?[Ff]ragen\b|\b[Ww]enden Sie sich\b|^(?:Weitere"
        r"|Nähere) (?:Informationen|Auskünfte)\b|^(?:Abonnieren|Besuchen|Folgen) Sie\b|^Lesen Sie (?:auch|mehr)\b"
        r"|^Mit freundlichen Grüßen",
        advises=r"empfiehlt|empfehlen|empfahl(?:en)?|sollte[n]?|fordert(?=.* auf\b)|schlägt (?=.*vor\b)",
    ),
    "fr": Wording(
        leans=r"Elles?|Ils|Il(?! (?:faut|faudra\w*|convien\w+|conviendr\w+|existe|y a|pleu\w+|s['’]agit|reste|semble"
        r"|est \p{L}+ (?:de|que|d['’]))\b)|Ceux-ci|Celles?-ci|Celui-ci|Ceux-là|C['’](?:est|était|étaient)|Leurs?|Son"
        r"|Sa|Ses|Aussi|Ainsi|Or|Mais|Car|Pourtant|Dès lors|De ce fait|Là|Puis|Ensuite|Alors|De là|Le (?:premier"
        r"|second|dernier|même)|La (?:première|seconde|dernière|même)|Les (?:autres|deux|mêmes)",
        this=r"Cela|Ceci|Ce(?! (?:qu[ei']|sont))|Cet|Cette|Ces|(?:Pour|Dans|À|De|Malgré|Avec|Selon|Par) c(?:es?|et"
        r"|ette|ela|elui-ci)",
        itself=r"rapport|étude|document|article|contrat|loi|guide|manuel|ouvrage|travail|thèse|livre|décision",
        joins=r"Par conséquent|En conséquence|En outre|De plus|Par ailleurs|Cependant|Toutefois|Néanmoins|Enfin"
        r"|En effet|En revanche|Finalement|Également|Par exemple|Au contraire|D['’]autre part|Malgré tout"
        r"|En particulier|Donc",
        beside=r"Bibliographie|Références(?: bibliographiques)?|Sources|Table des matières|Sommaire|Mentions légales"
        r"|Remerciements|Contacts?|Nous contacter|Liste des (?:figures|tableaux|abréviations|sigles)|Notes"
        r"|À propos (?:de l['’]auteur|des auteurs)|Avertissement|Index|Crédits",
        idle=r"^(?:Le|La|L['’])\s?(?:tableau|figure|graphique|annexe|carte|encadré"
        r"|schéma) [\dIVXA-D]\w* (?:ci-\w+ )?(?:présente|montre|illustre|indique|récapitule|donne|décrit|détaille"
        r"|retrace)(?! que)|^(?:La première|Cette|La présente) (?:partie|section) (?:présente|décrit|traite|expose"
        r"|porte)|^Ce chapitre\b|^Dans (?:la section suivante|le chapitre suivant|ce chapitre|cette (?:section"
        r"|partie))\b|[Tt]ous droits (?:de \w+ )?réservés|^Toute reproduction|^Pour (?:tout|toute|plus"
        r"|de plus)\b.*\b(?:renseignements?|informations?|questions?)\b|\bveuillez contacter\b|^(?:Abonnez|Inscrivez"
        r"|Suivez|Contactez)-|^Cordialement",
        advises=r"recommand(?:e|ent|ait|ons)|préconise(?:nt)?|devrai(?:t|ent)|conviendrait|propose(?:nt)? (?:de|d['’]"
        r"|que)",
    ),
    "es": Wording(
        leans=r"Él|Ellos|Ellas?|Sus?|Allí|Ahí|Pero|Y|Pues|Además de (?:ello|eso)|Luego|Después|(?:El|La|Lo|Los"
        r"|Las) (?:primer[oa]|segund[oa]|últim[oa]|mism[oa]s?|otr[oa]s?|anterior(?:es)?)(?= \p{Ll})|Entonces|Tampoco"
        r"|También|Por ello|Por eso|Con ello|De ahí|Así(?! como)",
        this=r"Est[aoe]s?|Estos|Es[aeo]s?|Esos|Dich[oa]s?|Tal(?:es)?|(?:Por|En|De|A|Con|Para|Ante|Según"
        r"|Tras) (?:est[aeo]s?|estos|es[aeo]s?|esos|ello|ellos|ellas|dich[oa]s?)",
        itself=r"informe|estudio|documento|artículo|contrato|ley|guía|manual|trabajo|libro|tesis|sentencia",
        joins=r"Por (?:lo )?tanto|Por consiguiente|En consecuencia|Sin embargo|No obstante|Además|Asimismo"
        r"|Por otr[ao] (?:parte|lado)|De hecho|En efecto|Por ejemplo|Finalmente|Por último|En cambio|En definitiva"
        r"|Igualmente|Con todo|En concreto",
        beside=r"Bibliografía|Referencias(?: bibliográficas)?|Fuentes|Índice(?: general)?|Contenidos?|Sumario"
        r"|Aviso legal|Agradecimientos|Contacto|Notas|Lista de (?:figuras|tablas|abreviaturas)|Sobre (?:el autor"
        r"|la autora|los autores)|Siglas|Créditos",
        idle=r"^(?:El|La) (?:cuadro|gráfico|tabla|figura|anexo|mapa) [\dIVXA-D]\w* (?:siguiente )?(?:muestra|presenta"
        r"|recoge|resume|indica|contiene|ilustra|detalla|describe)(?! que)|^En (?:el|la) (?:siguiente"
        r"|próxim[oa]) (?:apartado|sección|capítulo)|^(?:Este|El siguiente) (?:apartado|capítulo)\b|^Esta sección\b"
        r"|[Tt]odos los derechos reservados|^Queda prohibida\b|^Para (?:más|mayor|cualquier)\b.*\b(?:información"
        r"|consulta|duda)|\b[Pp]óngase en contacto\b|^(?:Suscríbase|Suscríbete|Síganos|Síguenos|Visite nuestr"
        r"|Atentamente)",
        advises=r"recomienda[n]?|recomendamos|debería[n]?|convendría|propone[n]? (?:que|\p{L}+r\b)|insta[n]? a",
    ),
    "it": Wording(
        leans=r"Egli|Ess[aeio]|Lui|Lei|Loro|Su[ao]|Suoi|Sue|Lì|Ma|E|Né|Perciò|Quindi|Così|Infatti|Anche|Poi|Invece"
        r"|Altri|Molti|(?:Il (?:primo|secondo|medesimo)|La (?:prima|seconda|medesima))(?= (?:è|ha|fu|era))|Gli altri"
        r"|Le altre|Entrambi|Entrambe",
        this=r"Ciò|Quest[aeio]|Tali?|(?:Per|In|Di|A|Con|Da|Su|Oltre a) (?:ciò|quest[aeio]|tali?|ess[aeio])",
        itself=r"relazione|rapporto|studio|documento|articolo|contratto|legge|guida|manuale|lavoro|libro|tesi"
        r"|sentenza",
        joins=r"Tuttavia|Inoltre|Di conseguenza|Pertanto|Per esempio|Ad esempio|D['’]altra parte|Infine"
        r"|In particolare|Peraltro|Al contrario|Nondimeno|In effetti|Di fatto|Dunque",
        beside=r"Bibliografia|Riferimenti(?: bibliografici)?|Fonti|Indice|Sommario|Note(?: legali)?|Ringraziamenti"
        r"|Contatti|Elenco delle (?:figure|tabelle|abbreviazioni)|Avvertenze legali|Sull['’]autore|Crediti",
        idle=r"^(?:La|Il|L['’])\s?(?:tabella|tab\.|figura|fig\.|grafico|allegato|tavola) [\dIVXA-D]\w* (?:mostra"
        r"|riporta|presenta|illustra|riassume|indica|contiene)(?! che)|^Nel (?:capitolo|paragrafo) (?:seguente"
        r"|successivo|che segue)|^(?:Questo|Il presente|Il seguente) (?:capitolo|paragrafo)\b|^Questa sezione\b"
        r"|[Tt]utti i diritti (?:sono )?riservati|^È vietata la riproduzione|^Per (?:ulteriori|maggiori|qualsiasi"
        r"|eventuali)\b.*\b(?:informazion[ei]|domand[ae]|chiariment[oi])\b|^(?:Iscriviti|Iscrivetevi|Seguici"
        r"|Contattateci|Cordiali saluti)",
        advises=r"raccomanda(?:no)?|dovrebbe(?:ro)?|si consiglia|propone(?:ono)? (?:di|che)|suggerisce",
    ),
    "pt": Wording(
        leans=r"El[ea]s?|Seus?|Suas?|Ali|Lá|Mas|E|Pois|Também|Então|Depois|Por isso|Com isso|Daí|Assim(?! como)"
        r"|[OA]s? (?:primeir[oa]|segund[oa]|últim[oa]|mesm[oa]s?|outr[oa]s?|demais)(?= \p{Ll})|Nas? restantes?",
        this=r"Ist?so|Isto|Ess[ea]s?|Est[ea]s?|Tal|Tais|(?:Por|D|N|Com|Para|Apesar d|Al[ée]m d|Diante d) ?(?:ist?so"
        r"|isto|ess[ea]s?|est[ea]s?)|A(?:o|lém) disso(?!,)",
        itself=r"relatório|estudo|documento|artigo|contrato|lei|guia|manual|trabalho|livro|tese|sentença",
        joins=r"Portanto|Por conseguinte|Consequentemente|No entanto|Contudo|Todavia|Entretanto|Além disso|Ademais"
        r"|Por exemplo|De fato|De facto|Com efeito|Finalmente|Por fim|Por outro lado|Em particular|Porém",
        beside=r"Bibliografia|Referências(?: bibliográficas)?|Fontes|Sumário|Índice|Aviso legal|Agradecimentos"
        r"|Contatos?|Contactos?|Notas|Lista de (?:figuras|tabelas|abreviaturas|siglas)|Sobre (?:o autor|a autora"
        r"|os autores)|Créditos",
        idle=r"^[OA] (?:gráfico|tabela|figura|quadro|anexo|mapa) [\dIVXA-D]\w* (?:mostra|apresenta|resume|indica"
        r"|contém|ilustra|detalha)(?! que)|^N[oa] (?:próxim[oa]|seguinte) (?:seção|secção|capítulo)|^(?:Este capítulo"
        r"|Esta se[cç]?ção)\b|[Tt]odos os direitos reservados|^É proibida a reprodução|^Para (?:mais|maiores"
        r"|outras)\b.*\binformações\b|\b[Ee]ntre em contato\b|^(?:Inscreva-se|Assine|Siga-nos|Atenciosamente)",
        advises=r"recomenda(?:m|-se)?|recomendamos|deveria[m]?|devem(?= ser)|propõe(?:m)? (?:que|\p{L}+r\b)|sugere",
    ),
    "nl": Wording(
        leans=r"Hij|Zij|Ze|Haar|Hun|Zijn(?! er)|Daarom|Daardoor|Hierdoor|Daarmee|Daarbij|Daarvan|Daarvoor|Daarover"
        r"|Daarna|Daar|Hiermee|Hiervoor|Hierbij|Hiervan|Dus|Maar|En|Want|Toch|Echter|Niettemin|Desondanks|Anders"
        r"|Zo(?!als)|Dan|Toen|De(?:ze)? laatste|Het eerste|Beide|Vervolgens",
        this=r"Dit|Deze|Dat(?! \p{L}+ (?:niet|is|wordt))|Zulke|Dergelijke|(?:In|Op|Met|Bij|Door|Voor|Van|Naar"
        r"|Om) (?:dit|deze|dat|die)",
        itself=r"rapport|onderzoek|document|artikel|studie|contract|wet|handleiding|boek|notitie|vonnis|scriptie",
        beside=r"Literatuur(?:lijst)?|Bronnen|Bronvermelding|Referenties|Bibliografie|Inhoud(?:sopgave)?|Dankwoord"
        r"|Colofon|Noten|Contact|Afkortingen(?:lijst)?|Over de auteurs?|Disclaimer",
        idle=r"^(?:Figuur|Tabel|Grafiek|Bijlage|Kaart) [\dIVXA-D]\w* (?:toont|laat|geeft|bevat|vat"
        r"|beschrijft)(?! zien dat)|^In (?:het volgende|dit) hoofdstuk|^In de volgende paragraaf|^Dit hoofdstuk\b"
        r"|^Deze paragraaf\b|[Aa]lle rechten voorbehouden|^Voor (?:meer|nadere|verdere)\b.*\b(?:informatie|vragen"
        r"|inlichtingen)\b|\bcontact op(?:nemen)?\b.* (?:met|via)\b|^(?:Abonneer|Volg ons|Met vriendelijke groet)",
        advises=r"beveelt|aanbevol?en|adviseert|adviseren|raadt aan|(?:zou|zouden) .*moeten",
    ),
    "pl": Wording(
        leans=r"On[aoi]?|One|Jego|Jej|Ich|Dlatego|Stąd|Zatem|Więc|Jednak|Ale|I|A|Tam|Wówczas|Wtedy|Następnie|Także"
        r"|Również|Poza tym|Wynika to|Powoduje to|Oznacza to|Pozostałe|Ten sam|Ta sama|Obaj|Obie|Oba",
        this=r"T(?:en|a|o|e|ych|ym|ymi|akie|aki|aka)|Ci|(?:Z|W|Na|Do|Po|Przy|Dla|O|Od|Przez|Mimo) t(?:ego|ej|ym|ych"
        r"|ymi|akich|o|ę|en)",
        itself=r"raport|dokument|artykuł|opracowani\w+|umow\w+|ustaw\w+|podręcznik|instrukcj\w+|książk\w+",
        joins=r"Ponadto|Co więcej|Jednocześnie|Niemniej|Tymczasem|Na przykład|Przykładowo|Wreszcie|Z kolei"
        r"|W rezultacie|W konsekwencji",
        beside=r"Bibliografia|Literatura|Źródła|Przypisy|Spis (?:treści|rysunków|tabel|skrótów|ilustracji)"
        r"|Podziękowania|Kontakt|Nota prawna|O autor(?:ze|ce|ach)|Wykaz skrótów",
        idle=r"^(?:Wykres|Tabela|Rysunek|Rys\.|Tab\.|Załącznik|Mapa) [\dIVXA-D]\w* (?:przedstawia|pokazuje|zawiera"
        r"|ilustruje|prezentuje)(?!,)|^W (?:następnym|kolejnym|niniejszym) (?:rozdziale|punkcie)"
        r"|[Ww]szelkie prawa zastrzeżone|^(?:W razie pytań|Więcej informacji|Z poważaniem)\b|\b[Pp]rosimy o kontakt\b"
        r"|^Zapisz się\b",
        advises=r"wnosi o|zaleca(?:ją)?|rekomenduj[eą]|powin(?:ien|na|no|ni|ny)|należy",
    ),
    "ru": Wording(
        leans=r"Он[аои]?|Его|Её|Ее|Их|Поэтому|Потому|Однако|Но|И|А|Там|Тогда|Затем|Также|Тем самым|Остальные|Оба|Обе"
        r"|Так|(?:Первый|Второй|Последний|Тот же|Та же)(?= \p{Ll})",
        this=r"Эт(?:от|а|о|и|им|ого|ой|их)|Так(?:ой|ая|ое|ие|им|их)|(?:В|На|Из|С|К|По|При|Для|О|Об|От|Вследствие"
        r"|Несмотря на|После|Из-за|Благодаря|За) (?:эт\p{L}+|тако\p{L}+)",
        itself=r"отч[её]т|доклад|документ|стать\w+|исследовани\w+|договор|закон\w*|книг\w+|руководств\w+|инструкци\w+",
        joins=r"Кроме того|Тем не менее|Вместе с тем|Таким образом|Следовательно|Например|Наконец|В частности"
        r"|С другой стороны|Более того|В результате|В то же время|Впрочем|Напротив",
        beside=r"Список (?:литературы|источников|использованн\w+ \w+|сокращений|таблиц|рисунков)|Литература"
        r"|Библиография|Источники|Содержание|Оглавление|Примечания|Сноски|Благодарности|Контакты|Об автор(?:е|ах)"
        r"|Правовая информация",
        idle=r"^На (?:рис\.|рисунке|графике|диаграмме|карте) [\dIVX]+ (?:показан|представлен|привед[её]н"
        r"|изображ[её]н)\w*|^(?:Рисунок|Таблица|График|Диаграмма|Приложение) [\dIVX]\w* |^В (?:таблице"
        r"|приложении) [\dIVX]+ (?:показан|представлен|привед[её]н)\w*|^В (?:следующ\w+|настоящ\w+"
        r"|данн\w+) (?:разделе|главе)|[Вв]се права защищены|^Перепечатка\b|^По (?:всем )?(?:вопросам|интересующим)"
        r"|^(?:Подписывайтесь|С уважением|Подробнее)\b|\s//\s",
        advises=r"рекоменду(?:ет|ют|ем|ется)|следует|необходимо|предлага(?:ет|ют|ется)|долж(?:ен|на|но|ны)",
    ),
    "tr": Wording(
        leans=r"O|Onlar|Onun|Onların|Bunun|Bunlar|Bunların|Bundan|Bunda|Buna|Ama|Fakat|Dolayısıyla|Yani|Oysa"
        r"|Ayrıca bu|Orada|Sonra",
        this=r"Bu|Şu|Böyle(?:ce|likle)?",
        itself=r"rapor\w*|çalışma\w*|belge\w*|makale\w*|sözleşme\w*|kanun\w*|kitap\w*|kılavuz\w*|tez",
        joins=r"Ayrıca|Bununla birlikte|Ancak|Buna karşın|Bu nedenle|Bu yüzden|Sonuç olarak|Örneğin|Öte yandan"
        r"|Üstelik|Kısacası",
        beside=r"Kaynakça|Kaynaklar|İçindekiler|Dipnotlar|Teşekkür|İletişim|Kısaltmalar|(?:Tablolar|Şekiller) Listesi"
        r"|Yazar Hakkında|Yasal Uyarı",
        idle=r"^(?:Şekil|Tablo|Grafik|Ek|Çizelge) [\dIVXA-D]\w*[’'.,]?\w* .*(?:göstermektedir|gösterilmektedir"
        r"|gösterilmiştir|verilmiştir|sunulmuştur)|[Hh]er hakkı saklıdır|[Tt]üm hakları saklıdır|^(?:Ayrıntılı"
        r"|Daha fazla) bilgi\b|\bsayı \d+, s\.",
        advises=r"öner(?:mektedir|ilmektedir|ir|ilir)|gerek(?:mektedir|ir|lidir)|\w+m[ae]l[ıi]d[ıi]r",
    ),
    "el": Wording(
        leans=r"Αυτό[ςν]?|Αυτή[ςν]?|Αυτοί|Αυτές|Αυτά|Εκείν\w+|Γι['’] αυτό|Έτσι|Εκεί|Αλλά|Και|Όμως|Άρα|Συνεπώς|Ούτε"
        r"|Τότε|Οι υπόλοιπ\w+|(?:Με|Σε|Για|Από|Παρά) αυτ\w+",
        joins=r"Ωστόσο|Επιπλέον|Επίσης|Επομένως|Για παράδειγμα|Εντούτοις|Τέλος|Αντίθετα|Παράλληλα",
        beside=r"Βιβλιογραφία|Πηγές|Περιεχόμενα|Ευχαριστίες|Επικοινωνία|Σημειώσεις|Συντομογραφίες|Νομική σημείωση",
        idle=r"^(?:Ο|Το|Η)? ?(?:πίνακας|[Πδ]ιάγραμμα|Πίνακας|Διάγραμμα|σχήμα|Σχήμα|εικόνα|Εικόνα"
        r"|χάρτης) \d+ (?:παρουσιάζ|δείχν|περιέχ|απεικονίζ)\w+|^Με την επιφύλαξη παντός|^Για (?:περισσότερες"
        r"|περαιτέρω) πληροφορίες",
        advises=r"συνιστά|συστήν\w+|προτείν\w+|πρέπει|θα έπρεπε",
    ),
    "zh": Wording(
        leans=r"[他她它]们?的?|这|其中|其(?!他)|该|此(?!外)|对此|为此|那|但|而|并|也|又|于是|前者|后者|以上|上述|同时"
        r"|然后|所以|因为|由此|[這們該]|對此|為此|於是|後者",
        itself=r"份?报告|份?報告|项研究|項研究|本书|篇文章|份合同",
        joins=r"因此，|此外，|另外，|然而，|但是，|不过，|例如，|总之，|因而，|不過，|總之，",
        beside=r"参考(?:文献|资料)|參考(?:文獻|資料)|目录|目錄|目次|致谢|致謝|注释|註釋|脚注|版权(?:声明|信息)?"
        r"|联系(?:我们|方式)|免责声明|附录目录",
        idle=r"^[如]?[图表圖]\s?\d+.{0,6}(?:显示|所示|列出|给出|展示|說明|顯示)|版权所有|版權所有|未经(?:书面)?许可"
        r"|^如有(?:任何)?(?:疑问|问题)|^(?:更多|详细)(?:信息|资讯|内容)请|^(?:本章|本节|下一[章节])",
        advises=r"建议|建議|应当|應當|应该|應該|必须|要求",
    ),
    "ja": Wording(
        leans=r"これ|それ|あれ|この(?!報告|調査|研究|論文|文書|本)|その(?!他)|そこ|ここで|そうした|こうした|このうち"
        r"|そのうち|彼|彼女|また|しかも|だが|すると|そして|ただし|ただ|なお|同(?:年|社|市|氏)|前者|後者|一方|そのため"
        r"|なぜなら|というのも|だから|さらに(?!、)|例えば(?!、)",
        joins=r"しかし、|また、|さらに、|その結果、|したがって、|例えば、|たとえば、|一方、|そのため、|加えて、"
        r"|つまり、",
        beside=r"参考(?:文献|資料)|引用文献|目次|謝辞|注釈?|脚注|お問い合わせ|免責事項|著作権|奥付|図表一覧",
        idle=r"^[図表]\s?\d+.{0,12}(?:示して|示す|まとめ)|無断(?:転載|複製)|^(?:ご不明|詳しくは|お問い合わせ)"
        r"|お問い合わせは|お問い合わせください|^(?:本章|次章|次節)で",
        advises=r"求める|求めた|べきである|べきだ|必要がある|望ましい|提言する|勧告",
    ),
    "ko": Wording(
        leans=r"이는|이것|그것|이들|그들|그는|그녀|그런데도|그래서|그렇지만|이에|이로|여기에|거기|이러한|그러한|이런"
        r"|그런|이(?= (?!보고서|연구|논문|문서|책|조사))|그(?= (?!밖))|왜냐하면|다만|즉(?=[ ,])|한편",
        joins=r"그러나|또한|따라서|게다가|그리고|예를 들어|하지만|결국|반면",
        beside=r"참고 ?문헌|참고 ?자료|목차|차례|감사의 (?:글|말)|각주|주석|연락처|문의|저작권",
        idle=r"^(?:그림|표|도표)\s?\d+.*(?:보여|나타|정리|제시)|무단 (?:전재|복제)|^(?:자세한|기타) (?:내용|사항"
        r"|문의)|문의하시기 바랍니다|문의해 ?주",
        advises=r"권고|해야 한다|하여야 한다|맞추어야|바람직하다|제안한다|필요가 있다",
    ),
    "ar": Wording(
        leans=r"(?:و|ف)?(?:هذا|هذه|ذلك|تلك|هؤلاء|هو|هي|هم|لذلك|لذا|لهذا|بذلك|بهذا|لكن|لكنه|لكنها)|ومن ثم|ثم|غير أن"
        r"|إلا أن|كما|وقد|وكان\p{L}*|ومع ذلك|مع ذلك|ومنها|ومعظمهم|يعود ذلك",
        itself=r"التقرير|الدراسة|البحث|الوثيقة|المقال|العقد|القانون|الكتاب|الدليل",
        joins=r"وبالإضافة إلى ذلك،|بالإضافة إلى ذلك،|علاوة على ذلك،|وعلاوة على ذلك،|ومن ناحية أخرى،|وأخيرًا،"
        r"|على سبيل المثال،|وبالتالي،|وبالتالي",
        beside=r"المراجع|المصادر|قائمة المراجع|المحتويات|جدول المحتويات|الفهرس|شكر وتقدير|الهوامش|للتواصل|اتصل بنا"
        r"|إخلاء المسؤولية",
        idle=r"^(?:يوضح|يبين|يعرض|يظهر) (?:الشكل|الجدول|الرسم|الملحق)|^(?:الشكل|الجدول) \d+|جميع الحقوق محفوظة"
        r"|^ل(?:لمزيد|مزيد) من المعلومات|^للاستفسار",
        advises=r"يوصي|توصي|نوصي|أوصى|ينبغي|يجب",
    ),
    "hi": Wording(
        leans=r"इस(?:से|का|की|के|में|लिए|ने|को)?(?! (?:रिपोर्ट|अध्ययन|दस्तावेज|लेख))|इन(?:में|का|की|के|से|को|हें|हों)?"
        r"|उस(?:से|का|की|के|में|ने|को)?|उन(?:में|का|की|के|से|को|हें|हों)?|वह|वे|ये|लेकिन|परन्तु|परंतु|फिर|वहाँ|तब"
        r"|यह(?! (?:रिपोर्ट|अध्ययन|दस्तावेज|लेख))",
        joins=r"अतः|हालाँकि,|हालांकि,|इसके अलावा,|इसलिए|उदाहरण के लिए,|साथ ही,|अंततः,",
        beside=r"संदर्भ(?: (?:सूची|ग्रंथ))?|ग्रंथ ?सूची|विषय-?\s?सूची|अनुक्रमणिका|आभार|संपर्क|टिप्पणियाँ|पादटिप्पणी",
        idle=r"^(?:चित्र|तालिका|सारणी|ग्राफ) \d+ (?:में|से)|सर्वाधिकार सुरक्षित|^अधिक जानकारी|संपर्क करें",
        advises=r"सिफारिश|चाहिए|अनुशंसा|सुझाव",
    ),
    "vi": Wording(
        leans=r"Nó|Họ|Chúng|Ông ấy|Bà ấy|Anh ấy|Cô ấy|Điều (?:này|đó)|Việc (?:này|đó)|Những điều (?:này|đó)|Nhưng|Và"
        r"|Ở đó|Khi đó|Sau đó|Trong đó",
        joins=r"Do đó|Vì vậy|Vì thế|Tuy nhiên|Ngoài ra|Bên cạnh đó|Hơn nữa|Ví dụ|Cuối cùng|Mặt khác|Do vậy",
        beside=r"Tài liệu tham khảo|Mục lục|Phụ chú|Chú thích|Lời cảm ơn|Liên hệ|Danh mục (?:hình|bảng|từ viết tắt)"
        r"|Bản quyền",
        idle=r"^(?:Hình|Bảng|Biểu đồ|Phụ lục) \d+ (?:cho thấy|trình bày|thể hiện|mô tả|liệt kê)(?! rằng)"
        r"|[Mm]ọi quyền được bảo lưu|^Mọi (?:thắc mắc|chi tiết)|^Để biết thêm|xin (?:vui lòng )?liên hệ",
        advises=r"kiến nghị|khuyến nghị|đề nghị|cần(?= )|phải(?= )|nên được",
    ),
}  # fmt: skip


_JOINED = ("ja", "ko", "zh")  # particles and other words follow a word without a space


class Rules:
    """The patterns of a language as they are applied; of one that is not in the table, none finds anything."""

    def __init__(self, wording: Wording, *, joined: bool) -> None:
        first, bound = ("", "") if joined else (r"(?<![\p{L}\p{M}])", r"(?![\p{L}\p{M}])")
        itself = rf"(?!\s?(?:{wording.itself}){bound})" if wording.itself else ""
        this = rf"|(?:{wording.this}){bound}{itself}" if wording.this else ""
        self.leans = _compiled(
            wording.leans and rf"(?:{wording.leans}){bound}{itself if not wording.this else ''}{this}"
        )
        self.joins = _compiled(wording.joins and rf"(?:{wording.joins})(?:(?<=[，、])|[,،]?\s+)(?=[\p{{L}}\p{{N}}])")
        self.beside = _compiled(wording.beside and rf"(?i)[\W\d]*(?:{wording.beside})[\W\d]*")
        self.idle = _compiled(wording.idle)
        self.advises = _compiled(wording.advises and rf"{first}(?:{wording.advises}){bound}")


@cache
def rules(language: str) -> Rules:
    """Those of a language by its code."""
    return Rules(_WORDINGS.get(language, Wording()), joined=language in _JOINED)


def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern or r"(?!)")
