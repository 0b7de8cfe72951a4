"""Words of the languages whose texts are read: numbers, greetings and the small words that tell languages apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from tercet.quality.words import fold


@dataclass(frozen=True, kw_only=True)
class Lexicon:
    """What CLDR does not say about a language."""

    atoms: dict[int, str]
    """Words for numbers below a thousand, several for one number where it is declined."""
    hundreds: str = ""
    thousands: str
    millions: str
    joints: str = ""
    """Words inside a number: `two hundred and five`."""
    ordinals: dict[int, str] = field(default_factory=dict[int, str])
    ordinal_endings: str = ""
    """What makes an ordinal of a number word, which may lose its last letter: `twentieth`, `двенадцатого`."""
    point: str = ""
    """The word for a decimal mark: `four point two`."""
    half_ending: str = ""
    """What adds a half to a number word: `fünfeinhalb`."""
    daily: str = ""
    """Adverbs that say how often as `a day` does."""
    times: dict[str, int] = field(default_factory=dict[str, int])
    """Words for `two times`, and after them the unit goes on: `twice a day`."""
    times_word: str = ""
    dozens: str = ""
    halves: str = ""
    """Words before a unit or a dozen, for half of one."""
    indefinite: str = ""
    """Articles that are no number words: they count in `half an hour` and `a month's notice` alone."""
    and_half: str = ""
    """Phrases behind a number that add a half to it, with `_` for a space."""
    amounts: dict[str, str] = field(default_factory=dict[str, str])
    """Words that are an amount by themselves, as figures: `fortnight`."""
    weak: str
    """Number words that mostly mean something else; they count beside a unit or a label only."""
    idioms: dict[str, int] = field(default_factory=dict[str, int])
    """Words before a number that states nothing: `between two visits`, `on any one day`."""
    articles: str = ""
    """Number words that mostly are articles; they count beside a unit only."""
    other_units: str = ""
    """Words behind a unit that make it another one: `10 jours ouvrés`."""
    percent: str
    to: str
    """Words between the ends of a range."""
    titles: str
    greetings: str = ""
    """Words before a name at the beginning of a letter."""
    anybody: str
    """Whom a greeting may address without a name."""
    small_words: str
    unit_stems: dict[str, str] = field(default_factory=dict[str, str])
    """Adjectives made of units: `14-tägig`."""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The value of each word below a thousand."""
        return {fold(word): value for value, words in self.atoms.items() for word in words.split()}

    @cached_property
    def scales(self) -> dict[str, int]:
        """The value of each word that multiplies what comes before it."""
        scales = {100: self.hundreds, 1000: self.thousands, 1_000_000: self.millions}
        return {fold(word): value for value, words in scales.items() for word in words.split()}

    @cached_property
    def ordinal_numbers(self) -> dict[str, int]:
        """The value of each ordinal."""
        regular = {
            stem + ending: value
            for word, value in self.numbers.items()
            for stem in (word, word[:-1], f"{word[:-1]}i")
            for ending in map(fold, self.ordinal_endings.split())
            if value > 3 and len(stem) > 3
        }
        return regular | {
            fold(word): value for value, words in self.ordinals.items() for word in words.split()
        }


def _range(start: int, words: str, step: int = 1) -> dict[int, str]:
    return {start + step * at: word.replace("/", " ") for at, word in enumerate(words.split())}


@lru_cache(maxsize=64)
def word_set(words: str) -> frozenset[str]:
    """Return the folded words of an entry."""
    return frozenset(fold(word) for word in words.split())


LEXICONS: dict[str, Lexicon] = {
    "en": Lexicon(
        atoms=_range(0, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
        | _range(20, "twenty thirty forty fifty sixty seventy eighty ninety", 10),
        hundreds="hundred", thousands="thousand", millions="million millions", joints="and",
        ordinals=_range(1, "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth") , ordinal_endings="th eth", point="point", daily="daily",
        times={"once": 1, "twice": 2, "thrice": 3}, times_word="times",
        dozens="dozen dozens", halves="half", indefinite="a an", and_half="and_a_half", amounts={"fortnight": "14 days"},
        idioms={"between": 2, "any": 1, "each": 1, "every": 1, "no": 1}, weak="zero one once twice thrice second", percent="percent per-cent", to="to until till and or through",
        titles="mr mrs ms miss dr doctor prof professor mx", greetings="hello hi hey dear", anybody="everyone everybody there guests members customer customers sir madam team colleague colleagues friend friends all client guest member support applicant hiring",
        small_words="the of to and a in is your you we for on our with are has have this that it be will by from at as not please was were thank if or us",
    ),
    "de": Lexicon(
        atoms=_range(0, "null ein/eins/eine/einen/einem/einer/eines zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
        | _range(20, "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 10),
        hundreds="hundert", thousands="tausend", millions="Million Millionen", joints="und",
        ordinals=_range(1, "erste/ersten/erster/erstes/ersten zweite/zweiten/zweiter/zweites dritte/dritten/dritter/drittes vierte/vierten fünfte/fünften sechste/sechsten siebte/siebten achte/achten neunte/neunten zehnte/zehnten elfte/elften zwölfte/zwölften"),
        ordinal_endings="te ten ter tes tem ste sten ster stes stem", point="Komma", half_ending="einhalb", daily="täglich",
        times={"einmal": 1, "zweimal": 2, "dreimal": 3, "viermal": 4, "fünfmal": 5, "sechsmal": 6}, times_word="mal",
        dozens="Dutzend", halves="halbe halbes halber halben halbem", amounts={"anderthalb": "1,5"},
        idioms={"zwischen": 2, "je": 1, "pro": 1}, weak="null eins einmal", articles="ein eine einen einem einer eines", percent="Prozent", to="bis und oder",
        titles="herr herrn frau dr doktor prof professor", greetings="hallo hi lieber liebe liebes", anybody="zusammen alle gäste damen herren kunde kundin kunden team gast kollege kollegin kollegen freunde mitglied mitglieder bewerberin bewerber",
        small_words="der die das und ist wir sie ihr ihre ihren ihrer zu den dem von mit für auf ein eine in im am haben hat wird werden nicht bei uns bitte es sind wurde vielen dank",
        unit_stems={"tagig": "day", "wochig": "week", "monatig": "month", "jahrig": "year", "stundig": "hour", "minutig": "minute"},
    ),
    "fr": Lexicon(
        atoms=_range(0, "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize")
        | _range(20, "vingt/vingts trente quarante cinquante soixante septante huitante nonante", 10),
        hundreds="cent cents", thousands="mille", millions="million millions", joints="et",
        ordinals=_range(1, "premier/première deuxième/second/seconde troisième quatrième cinquième sixième septième huitième neuvième dixième onzième douzième"), ordinal_endings="ième", point="virgule", daily="quotidiennement",
        dozens="douzaine douzaines", halves="demi demie", and_half="et_demi et_demie", amounts={"huitaine": "8", "dizaine": "10", "quinzaine": "15", "vingtaine": "20", "trentaine": "30", "centaine": "100"},
        idioms={"entre": 2, "chaque": 1}, weak="zéro neuf second seconde", articles="un une", other_units="ouvré ouvrés ouvrable ouvrables franc francs", percent="pourcent pour-cent", to="à au et ou jusqu'au",
        titles="m mme mlle monsieur madame dr docteur professeur maître", greetings="bonjour bonsoir salut cher chère", anybody="tous toutes client cliente clients messieurs mesdames équipe collègue collègues membre",
        small_words="le la les de des du et est vous nous votre vos notre nos à au aux un une pour dans sur avec que qui ce cette avons avez a ont été sera ne pas en par merci",
    ),
    "es": Lexicon(
        atoms=_range(0, "cero un/uno/una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte veintiuno/veintiún/veintiuna veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve")
        | _range(30, "treinta cuarenta cincuenta sesenta setenta ochenta noventa", 10)
        | _range(100, "cien/ciento doscientos/doscientas trescientos/trescientas cuatrocientos/cuatrocientas quinientos/quinientas seiscientos/seiscientas setecientos/setecientas ochocientos/ochocientas novecientos/novecientas", 100),
        thousands="mil", millions="millón millones", joints="y",
        ordinals=_range(1, "primero/primera/primer segundo/segunda tercero/tercera/tercer cuarto/cuarta quinto/quinta sexto/sexta séptimo/séptima octavo/octava noveno/novena décimo/décima"), point="coma", daily="diarias diarios diariamente",
        dozens="docena docenas", halves="media medio", and_half="y_medio y_media", amounts={"quincena": "15 días", "decena": "10", "veintena": "20", "centenar": "100"},
        idioms={"entre": 2, "cada": 1, "cualquier": 1}, weak="cero uno segundo segunda", articles="un una", other_units="hábil hábiles laborable laborables lectivos alternos", percent="porciento por-ciento", to="a al y o hasta",
        titles="sr sra srta señor señora dr dra doctor doctora profesor profesora don doña", greetings="hola querido querida estimado estimada", anybody="todos todas amigos cliente clienta clientes señores equipo colega colegas socio socia",
        small_words="el la los las de del y es su sus en que un una por para con se le les ha hemos han nuestro nuestra al no lo está son será como más si gracias usted nos",
    ),
    "ru": Lexicon(
        atoms=_range(0, "ноль/нуля один/одна/одно/одного/одной/одну/одним/одном два/две/двух/двум/двумя три/трех/трем/тремя четыре/четырех/четырем пять/пяти/пятью шесть/шести/шестью семь/семи/семью восемь/восьми девять/девяти десять/десяти одиннадцать/одиннадцати двенадцать/двенадцати тринадцать/тринадцати четырнадцать/четырнадцати пятнадцать/пятнадцати шестнадцать/шестнадцати семнадцать/семнадцати восемнадцать/восемнадцати девятнадцать/девятнадцати")
        | _range(20, "двадцать/двадцати тридцать/тридцати сорок/сорока пятьдесят/пятидесяти шестьдесят/шестидесяти семьдесят/семидесяти восемьдесят/восьмидесяти девяносто/девяноста", 10)
        | _range(100, "сто/ста двести/двухсот триста/трехсот четыреста/четырехсот пятьсот/пятисот шестьсот/шестисот семьсот/семисот восемьсот/восьмисот девятьсот/девятисот", 100),
        thousands="тысяча тысячи тысяч тысячу", millions="миллион миллиона миллионов",
        ordinals=_range(1, "первый/первое/первого/первая/первой второй/второе/второго/вторая третий/третье/третьего/третья четвертый/четвертое/четвертого пятый/пятое/пятого шестой/шестое/шестого седьмой/седьмое/седьмого восьмой/восьмое/восьмого девятый/девятое/девятого десятый/десятое/десятого"), ordinal_endings="ый ое ого ая ой ому ом", daily="ежедневно",
        times={"дважды": 2, "трижды": 3}, times_word="раза",
        dozens="дюжина дюжины дюжин дюжину", and_half="с_половиной", amounts={"полтора": "1,5", "полторы": "1,5", "полутора": "1,5", "полгода": "6 месяцев", "полчаса": "30 минут", "полдюжины": "6", "десяток": "10"},
        idioms={"между": 2, "каждый": 1, "по": 1}, weak="ноль один одна одно одного одной одну одним одном дважды трижды", percent="процент процента процентов", to="до по и или",
        titles="господин госпожа г-н г-жа", anybody="клиент клиенты коллеги коллега покупатель друзья господа",
        small_words="и в на с по не что ваш ваша ваше ваши вам вас мы за для от до к из это был была было будет наш наша как если о об при мы же или вы",
        unit_stems={"дневн": "day", "недельн": "week", "месячн": "month", "часов": "hour", "минутн": "minute"},
    ),
}  # fmt: skip
"""The languages that can be read. A text in any other is unjudged."""
