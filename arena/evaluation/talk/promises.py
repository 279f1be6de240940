"""Promises of a negotiation in English: what the next offer gives, and what would be accepted.

The clause is a text of tokens (see `phrases`). Contents of the claims, of the kind `intention`:

    intention 1 gets all hat              the speaker's next offer gives player 1 all hats
    not intention 1 gets 1 book           ... and not one book
    intention 0 accept for all book       the speaker accepts an offer with all books for player 0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from arena.core.claims import Claim
from arena.evaluation.talk.phrases import ADVERB

_NUMBERS = {"a": 1, "an": 1, "one": 1, "another": 1, "some": 1, "two": 2, "three": 3, "four": 4}
_ITEM = (
    r"(?:(?:at least |the other |the )?(?P<number>\d|a|an|one|another|some|two|three|four)"
    r"(?: more)? (?:of )?)?(?:all |both |the |my |your |these |those |of |other |remaining ){0,3}"
    r"%(?P<items>[\d+]+)"
)
_ONE_ITEM = re.compile(_ITEM)
_PLAIN_ITEM = re.sub(r"\?P<\w+>", "?:", _ITEM)
WHAT = rf"(?P<what>{_PLAIN_ITEM}(?:(?:,| and|, and| plus) {_PLAIN_ITEM}){{0,3}}|them|it|those)"
"""Items with their numbers, or a pronoun for those that were named last."""
_WILL = (
    rf"(?:(?:will|shall|am going to|promise to|intend to|plan to|hereby|am|can(?= not)|"
    rf"would(?= (?:not|never))|could(?= not)|do) )?{ADVERB}(?P<neg>not |never )?{ADVERB}"
    r"(?:going to )?"
)
_TO = r"(?P<to>you|@\d+)"
_GIVE = r"(?:give|giving|offer|offering|leave|leaving|let|grant|hand|propose)"
GIFTS = tuple(
    re.compile(text)
    for text in (
        rf"\bi {_WILL}{_GIVE} {_TO}(?: (?:have|keep|take|get))? {WHAT}",
        rf"\bi {_WILL}{_GIVE} {WHAT} to {_TO}",
        rf"\bi {_WILL}(?:give up|part with|let go of) {WHAT}",
        rf"\bi promise {_TO} {WHAT}|\bmy (?:next )?(?:offer|proposal) (?:will )?(?P<neg>not )?"
        rf"(?:gives?|leaves?) (?P<to2>you|@\d+) (?P<what2>{_PLAIN_ITEM})",
        rf"^(?:so |then |now |and |ok,? |okay,? |fine,? |please,? |@\d+,? |i (?:am )?propos(?:e|"
        rf"ing) that |my (?:offer|proposal|idea|suggestion) is (?:that )?){{0,4}}{_TO} "
        rf"(?:(?:can|may|will|shall|should) )?(?P<neg>not |never )?"
        rf"(?:have|keep|get|take|receive) {WHAT}",
        rf"^(?:please |just |do |so |then |and ){{0,2}}(?:have|keep|take) {WHAT}",
        rf"{WHAT} (?:is|are|will be) (?P<neg>not )?(?:all )?(?:yours|for (?P<to>you|@\d+))\b",
        rf"{WHAT} (?:will )?(?P<neg>not )?goe?s? to {_TO}",
    )
)
"""Items for a listener."""
KEPT = re.compile(rf"\bi {_WILL}(?:keep|keeping|take|taking|(?<=will )have|get|getting) {WHAT}")
"""Items for the speaker."""
_DEAL = (
    r"(?:we (?:will )?have (?:a|an) (?:deal|agreement)|you (?:will )?(?:have|got|have got) "
    r"(?:yourself )?a deal|(?:it|that) (?:is|will be|would be) a deal|(?:it is )?deal$|"
    r"(?:i am|count me) in$|we are (?:good|done|set)$)"
)
_MAIN = (
    r"(?:i (?:(?:will|would|shall|am going to|promise to|am happy to|am ready to|am willing to|"
    r"can|could|am) )?(?P<neg>not )?(?:gladly |happily |immediately |definitely |certainly )?"
    rf"(?:be )?(?:happy to |ready to |willing to )?&(?P<act>\d+)|{_DEAL})"
)
_IF = r"(?:if|when|once|as soon as|as long as|provided(?: that)?|whenever)"
CONDITIONALS = tuple(
    re.compile(text)
    for text in (
        rf"{_MAIN}(?: (?:to )?(?:it|this|that|anything|any offer|an offer|the deal|a deal|right "
        rf"away|at once))?,? "
        rf"(?<!only )(?:{_IF} |(?=that gives me |where |in which ))(?P<condition>.+)",
        rf"^{_IF} (?P<condition>.{{1,200}}?),? (?:then |and )?{_MAIN}",
        rf"^(?:please |just |so ){{0,3}}(?P<condition>(?:(?:give|offer|leave|let) me|add|hand over|"
        rf"throw in|(?=\w+ more)) ?.{{1,200}}?),? (?:and|then|and then) {_MAIN}",
    )
)
"""An answer that depends on what an offer gives."""
CONDITION = re.compile(
    r"^(?:where |in which )?(?:(?P<own>(?:that gives me|"
    r"i (?:also |just |only )?(?:can |could |may )?(?:get|got|keep|kept|have|had|receive)|"
    rf"(?:you )?(?:would )?(?:give|gave|offer|offered|leave|left|let) me(?: (?:have|keep|get))?|"
    rf"(?:you )?(?:would )?(?:add|include|hand over|throw in)|(?=\w+ more)))|(?P<to>you|@\d+) "
    rf"(?:get|keep|take|have|want|insist on)) ?{WHAT}$|"
    rf"^(?P<what2>{_PLAIN_ITEM}) (?:is|are|goes? to|will be) (?:mine|me)$"
)


class PromiseReader:
    """Reader of the promises of one speech; it knows which items were named last.

    Names of items and acts are in the order of their tokens. `listener` returns the seat that "you"
    or a token names; None if it is unknown.
    """

    def __init__(
        self,
        items: Sequence[str],
        acts: Sequence[str],
        speaker: int,
        listener: Callable[[str], int | None],
    ) -> None:
        self._items, self._acts = items, acts
        self._speaker, self._listener = speaker, listener
        self._named: list[str] = []

    def name(self, clause: str) -> None:
        """Remember the items of a clause, for a pronoun in the next one."""
        self._named = self._quantities(clause, negated=False) or self._named

    def conditional(self, sentence: str) -> Claim | None:
        """Return the answer that a sentence promises under a condition; None for others."""
        for form in CONDITIONALS:
            found = form.search(sentence)
            condition = CONDITION.search(found["condition"]) if found else None
            if found is None or condition is None:
                continue
            seat = self._listener(condition["to"]) if condition["to"] else self._speaker
            act = self._acts[int(found["act"])] if found["act"] else "accept"
            wanted = self._what(condition["what"] or condition["what2"], negated=False)
            if seat is not None and wanted:
                content = f"{act} for {' and '.join(wanted)}"
                return Claim("intention", seat, content, not found["neg"])
        return None

    def offers(self, clause: str) -> Iterator[Claim]:
        """Yield what the speaker's next offer gives, by one clause."""
        for form in (*GIFTS, KEPT):
            if (found := form.search(clause)) is None:
                continue
            groups = found.groupdict()
            to = groups.get("to") or groups.get("to2") or "you"
            seat = self._speaker if form is KEPT else self._listener(to)
            negated = bool(groups.get("neg"))
            if seat is not None:
                for what in self._what(found["what"] or found["what2"], negated):
                    yield Claim("intention", seat, f"gets {what}", not negated)
            return

    def _what(self, text: str, negated: bool) -> list[str]:
        return self._quantities(text, negated) or self._named

    def _quantities(self, text: str, negated: bool) -> list[str]:
        """Return items with numbers, `2 hat` or `all ball`; a denied "the ball" is not even one."""
        found = []
        for each in _ONE_ITEM.finditer(text):
            word = each["number"]
            number = "1" if negated else "all"
            if word:
                number = word if word.isdigit() else str(_NUMBERS[word])
            found += [f"{number} {self._items[int(n)]}" for n in each["items"].split("+") if n]
        return found
