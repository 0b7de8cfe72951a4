"""Words around an amount that decide what it may be: by how much something changes, and whether a label names it plainly.

`The rent is reduced by 100` does not say that the rent is 100. And a token may only be replaced where its label says little:
not in `your old rent`, `half the rent`, `council tax of £140 with your rent`. So only words that are known to change nothing
may stand around the two.
"""

from __future__ import annotations

import re

from tercet.contracts.documents import KnownValue, TextToken
from tercet.quality.contexts import Range
from tercet.quality.words import words_of

_NEAR = 60
_BY = re.compile(
    r"(?<!\w)(?:reduc|increas|decreas|rais|rise|rising|rose|lower|cut|drop|fall|fell|grow|grew|climb|up|down|higher|discounted)\w*"
    r"(?:\s\w+){0,3}?\sby(?:\s(?:about|around|nearly|only|another|up\sto|a\sfurther))?\s$"
    r"|(?<!\w)(?:augment|diminu|baiss|rédui|major|minor|hauss)\w*(?:\s\w+)?\s(?:de|d')(?:\sprès\sde)?\s?$"
    r"|(?<!\w)(?:aument|sub(?:e|en|ió|irá)(?!\w)|baj(?:a|an|ó|ará)(?!\w)|reduc|redu[jz]|increment|dismin|rebaj)\w*(?:\s\w+)?\s(?:en|un|una)\s$"
    r"|(?<!\w)(?:увелич|уменьш|сниз|снижа|повы[сш]|выр[оа]с|упал|подорож|подешев)\w*(?:\s\w+){0,3}?\sна\s$",
    re.IGNORECASE,
)
_UM = re.compile(r"(?<!\w)um(?:\s(?:rund|etwa|ca\.|bis\szu|weitere|nur))?\s$", re.IGNORECASE)
_UM_VERB = re.compile(
    r"(?<!\w)(?:steig|stieg|gestiegen|sink|sank|gesunken|erhöh|reduzier|senk|gesenkt|verringer|verminder|ermäßig|fäll|fiel|wächst|verläng|verkürz|angehoben|herabges)\w*",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"\s(?:less|cheaper|dearer|higher|lower|weniger|günstiger|teurer|de\s(?:plus|moins)|menos|más\scaro)(?!\w)"
    r"|引き|値上げ|値下げ|増額|減額|\s?(?:की|का)\s(?:वृद्धि|कमी|बढ़ोतरी|कटौती)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"^(?:increas|reduc|rais|discount|rabatt|nachlass|erhoh|senkung|minder|remise|reduction|augment|descuento|rebaj|aument|скидк|повыш|сниж)"
)


def is_change(text: str, token: Range, sentence: Range) -> bool:
    """Return whether an amount says by how much something changes."""
    before = text[max(token[0] - _NEAR, sentence[0]) : token[0]]
    if _BY.search(before) or _BEHIND.match(text, token[1]):
        return True
    near = max(token[0] - _NEAR, sentence[0]), min(token[1] + _NEAR, sentence[1])
    return bool(_UM.search(before)) and _UM_VERB.search(text, *near) is not None


def names_change(value: KnownValue) -> bool:
    """Return whether a value is a change itself, such as a discount."""
    return any(_OWN.match(word) for label in value.labels for word in words_of(label))


_LINKS = frozenset(words_of(
    "is are of at on amounts to comes ms mr mrs miss dr"
    " ist sind von betragt betragen lautet belauft sich auf am herr herrn frau"
    " est sont de d du des s eleve a au m mme madame monsieur"
    " es son del asciende senor senora don dona"
    " составляет составляют равна равен равно это"
    " は が है का की"
))  # fmt: skip
"""Words between a label and its value."""
_PLAIN = frozenset(words_of(
    "the a an your our my this that and please note it was were"
    " der die das den dem des ein eine ihr ihre ihrer ihren ihrem unser unsere und bitte"
    " le la les l un une votre vos notre nos et"
    " el los las un una su sus nuestro nuestra y"
    " ваш ваша ваше ваши наш наша и"
    " お ご の आपका आपकी आपके"
))  # fmt: skip
"""Words around them that do not make another value of it."""
_VERBS = frozenset(words_of(
    "is are was were will has have ist sind war waren wird werden wurde hat haben"
    " est sont sera seront a ont es son sera seran ha han"
))  # fmt: skip
"""Words behind a label and its value with which something is said of both: the refund of 75 EUR is on its way."""
_CLAUSE = re.compile(r"[,;:!?()\n、。；：（）|•]|[.](?=\s|$)|\s[-–—]\s")
_JOINT = re.compile(r"[\w\s:：=*_|\"'«»„“”(\-–—.·…]*")


def names_plainly(text: str, label: Range, token: TextToken, segment: Range, owner: frozenset[str]) -> bool:
    """Return whether a label stands directly beside a token of its segment, with nothing else in their clause.

    `owner` are the words for what the value belongs to: the total of the order is the total.
    """
    first, last = min(label[0], token.start), max(label[1], token.end)
    if token.start < label[1] and label[0] < token.end:
        return False
    if token.end <= label[0]:
        is_beside = not text[token.end : label[0]].strip()
    else:
        between = text[label[1] : token.start]
        words = set(words_of(between))
        known = _LINKS | (_PLAIN | owner if owner & words else frozenset[str]())
        is_beside = words <= known and _JOINT.fullmatch(between) is not None
    before = [segment[0], *(match.end() for match in _CLAUSE.finditer(text, segment[0], first))]
    behind = _CLAUSE.search(text, last, segment[1])
    rest = words_of(text[last : behind.start() if behind else segment[1]])
    is_said_of = label[1] <= token.start and rest[:1] and rest[0] in _VERBS
    return (
        is_beside
        and (_PLAIN | owner).issuperset(words_of(text[before[-1] : first]))
        and (bool(is_said_of) or _PLAIN.issuperset(rest))
    )
