"""Abbreviations by what may follow them, and words that begin sentences.

Keys are in lower case and without the last full stop. A word that is also an ordinary one, such as "no" or "art", is
under what tells the two apart: a number after it, or a capital at its beginning.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEVER_LAST = _words(
    """
    mr mrs ms mx dr drs prof messrs mme mmes mlle mgr dom esp cf viz vgl vs av e.g i.e eg ie z.b d.h bzw т.е p.ex
    approx ca circa incl excl trans op pop est c.f attn vice asst dep assoc gebr hrsg núm dra
    zzgl abzgl ggf bspw mme mlles excmo excma ilmo ilma dña dott avv sigg geom dhr mevr
    hab inż mgr tzw tzn tj doç müh yrd uzm bkz κ κα κκ δηλ τηλ ул им акад проф доц просп обл डॉ प्रो ดร
    """
)
"""No sentence ends with one of these: titles before a name, and words before an example."""

TITLES = _words(
    """
    gen lt col capt cpt sgt cpl pvt maj cmdr cdr comdr brig adm rev hon sen sens rep reps gov govs pres amb supt insp
    det st ste mt fr sr sra srta pub fed natl intl wm chas geo thos jos benj edw robt
    hr hrn frl fa sig ts ths gs pgs bs tp
    """
)
"""No sentence ends with one of these where it has a capital, unless a word follows that begins sentences."""

BEFORE_NUMBERS = _words(
    """
    no nos nr nrs fig figs eq eqs eqn tab art arts sec secs sect ch chap chaps vol vols p pp pg pgs para paras pt pts
    cl n nn c b d r ex exh ref refs ser bk fol app sched ann bldg rm apt ste lat long pág págs stat dkt doc
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun abs kap bd
    gem ust poz pkt godz janv févr avr juil déc okt dez dic fev giu lug ott mrt abb anm ziff rn rdnr lit éd
    artt pagg blz afb jrg hfst fl fls tel άρθ αρ ν σ σελ τόμ παρ ст рис табл гл стр разд тел
    matt isa prov gen exod deut lev num josh judg sam chron neh ps eccl jer ezek dan hos rom cor gal eph phil col thess
    tim heb jas pet
    """
)
"""What ends no sentence before a number, a letter, a section sign or a bracket."""

BEFORE_FIGURES = _words("ok s t")
"""What ends no sentence before a number of two figures or more: "ok. 40" is "about 40" in Polish."""

MONTHS = _words("jan feb mar apr may jun jul aug sep oct nov dec")
"""The first three letters of each month, which stand after a day."""

MAYBE_LAST = _words(
    """
    jr sr jnr snr esq inc corp ltd co cos llc llp plc bros mfg s.a n.v gmbh assn assoc dept govt univ inst acad soc
    div dist cir cong sess rec supp reg civ crim ct cl com comm cmte bd admin auth bur
    ave blvd rd st ln hwy pkwy rte sq ft bldg mt mts
    ala ariz ark calif colo conn del fla ga ida ill ind kan kans ky la md mass mich minn miss mo mont neb nebr nev
    okla ore pa penn tenn tex va vt wash wis wisc wyo ont que
    etc al resp ibid id ff seq sp spp var subsp subg nov cit loc eds ed jun
    min max avg sra sras srta srs ing usw u.a u.u dgl mio mrd str tel
    biol chem phys math med psychol econ sci proc bull natl amer engl hist lett microbiol biochem
    """
)
"""What may end a sentence: it does where a word follows that begins sentences."""

ORDINARY = _words(
    """
    no nos fig figs art arts tab app ref pt ex ill ind la miss mass ore wash del long lat sun sat mar gen fed id max
    min sq co com var loc sam num dan tim phil pet prov judg jun rom gal col inst rec mo id med hist est pop trans op
    ms rep reps rev dom fr pub cl mt pa ma ed
    """
)
"""Those that are words or names too: in lower case they are abbreviations only before a number."""

STARTERS = _words(
    """
    a about according after all also although among an and another any anyone are as at because before between both but
    by can could did do does during each either even every everyone few finally first for from further had has have he
    her here his how however i if in instead it its last later many meanwhile more moreover most mr mrs ms much my
    neither never no nobody none nor not nothing now of on once
    one only or other others our over perhaps second several she should
    since so some soon such that the their then there therefore these they this those though three through thus to today
    together two under unlike until was we were what when where whether which while who whose why will with within
    without would yes yet you your
    aber als auch da dann das dem den der des die dies diese doch ein eine er es für heute ich ihr im ist man mit nach
    nun nur sie so und von vor was wenn wer wir zu zum
    au avec ce ces cette dans depuis des elle elles en est et il ils je la le les leur mais nous on ou où par pour quand
    selon si son sur un une vous
    al con cuando de del desde el ella ellos entre es esta este esto hay las lo los mientras nadie para pero por que se
    según sin su sus también una y ya
    a ao as com como da das do dos e ela ele eles em isso mas na nas no nos o os para por quando que se um uma
    alors ainsi aussi cela celui ceux cependant lors plus tous toute toutefois
    anche che come dopo gli nel nella lo ogni per perché più questa questo se secondo si tra tuttavia uno
    alguns antes até cada depois essa esse esta este foi já mais muitos não ou quem se sem seu sua também
    bij dat deze dit ook het hij maar naar niet op toen volgens wij zij
    aber alle allerdings auf bei bis dabei daher damit deshalb dieser dieses durch eines einer jede jeder jedoch keine
    nachdem seit trotzdem unter viele während weil
    czy dlatego gdy ich jednak jego jest już kiedy które który oraz ponadto przez tak tylko według wszystkie
    ama ancak bu bunun daha her ise için şu ve
    η ο το οι τα τι τη την της του των αυτό αυτή αυτοί από για δεν και κάθε με μετά όμως όταν στη στην στο
    các cho do khi mỗi một nhưng những sau theo trong tuy từ vì với
    в все вместе для его если за и из их к как когда мы на не но однако он она они от по после поэтому при с так там то
    у что это эти этот я
    """
)
"""Words that begin a sentence where they have a capital, because no name begins with them."""

COMPANY = _words("inc corp co ltd llc llp plc ag sa brands group holdings")
"""What follows a company's name that ends with "!" or "?"."""

EXCLAIMED = _words("yahoo jeopardy yum oklahoma panic guess jumeirah lloyds ho")
"""Names that are written with such a mark."""
