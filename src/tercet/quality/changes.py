"""Amounts by which something changes, which are not its value: `the rent is reduced by 100`."""

from __future__ import annotations

import re

from tercet.contracts.documents import KnownValue
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
