"""The words that the grounding check knows: what carries no meaning of its own, what turns a statement round, what is
the same thing said otherwise. Plain English, and short on purpose: a word that is not here is only equal to itself.
"""

from __future__ import annotations

import re
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


STOP = word_set(
    """
    a an the this that these those it its it's he she they them his her their we us our you your i my me who which what
    where when is are was were be been being am has have had having do does did done will would shall should can could
    may might must of in on at by to for from with without within into onto over under up down out off as and or but nor
    so if then than too also only just very still yet already now currently there here all any some each every both
    either neither not no never none nobody nothing cannot about around roughly approximately nearly almost per more most
    less least fewer fewest between after before until since during while because following according well please
    unfortunately however therefore together one's such own again further once twice time times total totals amount amounts number value contain contains contained consist consists consisted stand stands
    stood come comes came case cases monday tuesday wednesday thursday friday saturday sunday utc ago exact exactly
    currency true know known find found that's let get got getting take takes took taken taking make makes made give
    gives given gave go goes went carry carries carried cover covers covered list lists
    listed see show shows shown
    """
)
"""Words that say nothing about what a sentence is about."""

NEGATORS = word_set(
    "not no never none nobody nothing neither nor cannot without hardly lacks lacked lack nowhere"
)
FAILING = word_set("fails failed refuses refused declines declined denies denied")
"""Words that negate what follows: the flight failed to depart, the patient denies being ill."""
LINKS = word_set("to being having that")

OPPOSITES: dict[str, str] = {
    "reject": "approve", "deny": "approve", "decline": "approve", "disapprove": "approve",
    "fail": "pass",
    "fall": "rise", "drop": "rise", "decrease": "rise", "shrink": "rise", "sink": "rise", "lower": "rise",
    "close": "open", "shut": "open",
    "forbid": "allow", "prohibit": "allow", "ban": "allow",
    "disable": "enable", "lose": "win",
    "dismiss": "hire", "fire": "hire",
    "damage": "intact", "break": "intact",
    "absent": "present", "exclude": "include", "late": "punctual", "false": "true",
    "delay": "advance", "postpone": "advance", "defer": "advance",
    "cancel": "proceed", "abort": "proceed", "offline": "online", "worse": "better", "unlock": "lock",
}  # fmt: skip
"""A word and the one whose opposite it is."""

SAME: dict[str, str] = {
    "grow": "rise", "increase": "rise", "climb": "rise", "raise": "rise",
    "accept": "approve", "permit": "allow",
    "reimburse": "refund", "repay": "refund",
    "dispatch": "ship",
    "firm": "company", "business": "company", "enterprise": "company",
    "employee": "worker", "staff": "worker",
    "car": "vehicle", "automobile": "vehicle",
    "buy": "purchase", "start": "begin", "commence": "begin", "finish": "end", "terminate": "end",
    "client": "customer", "bill": "invoice", "parcel": "package", "quantity": "piece",
    "lead": "head", "leader": "head", "location": "place", "mail": "email",
    "headquarter": "base", "hq": "base", "warehouse": "store",
    "author": "write", "writer": "write", "employ": "join", "employment": "join",
    "duration": "last", "length": "long", "weight": "weigh", "depth": "deep", "width": "wide",
    "height": "high", "capacity": "hold", "phone": "call", "telephone": "call", "carrier": "ship",
    "price": "cost", "charge": "cost",
    "doc": "documentation",
}  # fmt: skip
"""A word and the one that stands for it."""

IRREGULAR: dict[str, str] = {
    "written": "write", "wrote": "write", "sent": "send", "paid": "pay", "sold": "sell", "lost": "lose",
    "began": "begin", "begun": "begin", "fell": "fall", "fallen": "fall", "rose": "rise", "risen": "rise",
    "grew": "grow", "grown": "grow", "held": "hold", "met": "meet", "won": "win", "broke": "break", "broken": "break",
    "bought": "buy", "kept": "keep", "left": "left", "led": "lead", "ran": "run", "saw": "see", "seen": "see",
    "spoke": "speak", "spoken": "speak", "forbidden": "forbid", "born": "born", "built": "build", "chosen": "choose",
    "drove": "drive", "driven": "drive", "felt": "feel", "hidden": "hide", "hid": "hide", "knew": "know",
    "lent": "lend", "rebuilt": "rebuild", "shown": "show", "shut": "shut", "slept": "sleep", "stole": "steal",
    "stolen": "steal", "taught": "teach", "thought": "think", "threw": "throw", "thrown": "throw", "wore": "wear",
    "men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "withdrew": "withdraw",
    "lay": "lie", "lies": "lie", "brought": "bring", "caught": "catch", "fought": "fight", "spent": "spend",
    "has": "have", "analyses": "analysis", "criteria": "criterion", "indices": "index", "responses": "response",
}  # fmt: skip

TITLES = word_set(
    "mr mrs ms miss dr prof professor sir madam lord lady president chancellor minister inspector judge captain "
    "senator king queen saint st mx"
)

_SUFFIXES = (
    "ations",
    "ation",
    "ions",
    "ion",
    "ments",
    "ment",
    "ings",
    "ing",
    "als",
    "al",
    "edly",
    "ed",
    "es",
    "s",
    "e",
    "y",
)
_PREFIX = re.compile(r"(?:un|in|im|non-?|dis|il|ir)(?=[a-z]{4})")
_UNDOUBLED = re.compile(r"([bdgmnprt])\1$")


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without its endings, so that `refunded` and `refunds` are one word."""
    word = word.casefold().replace("’", "'").removesuffix("'s").removesuffix("'")
    word = IRREGULAR.get(word, word)
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            return (
                _UNDOUBLED.sub(r"\1", word[: -len(suffix)])
                if suffix in ("ed", "ing")
                else word[: -len(suffix)]
            )
    return word


_OPPOSITES = {stem(word): stem(other) for word, other in OPPOSITES.items()}
_SAME = {stem(word): stem(other) for word, other in SAME.items()}


@lru_cache(maxsize=16_384)
def concept(word: str) -> tuple[str, int]:
    """What a word stands for, and whether it stands for its opposite (-1)."""
    root = stem(word)
    root = _SAME.get(root, root)
    if root in _OPPOSITES:
        return _OPPOSITES[root], -1
    return root, 1


@lru_cache(maxsize=16_384)
def without_prefix(root: str) -> str | None:
    """The word that a prefix such as `un` turns round; whether it is one, only the other statement can tell."""
    match = _PREFIX.match(root)
    return stem(root[match.end() :]) if match else None
