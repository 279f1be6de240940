"""Claim reader: a grammar and a phrase book read typed claims from English, without a model.

The words of a speech are first replaced by tokens for players, roles, items and acts; then each
clause is matched with the forms of `phrases`. Questions, conditions, words of others and irony
claim nothing. A speech that names something in an unknown form, or in another language, is unread:
it is counted, and never taken as honest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from arena.core.claims import HEDGED, Claim, SpeechReading, Vocabulary
from arena.evaluation.talk import phrases
from arena.evaluation.talk.promises import PromiseReader
from arena.evaluation.talk.wording import HOLDINGS, INDIRECT, LONGEST, rewrite, tokenise

_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;\n]*")
_SUBJECT = (
    r"(?:i|my|we|he|she|they|it|you|nobody|do not|neither|maybe|perhaps|who|which|vote|the "
    r"(?:result|real|true|other|odds|chances?|&\d+|#\d+)|@[\d+]+(?! (?:too|as well)\b)|"
    r"(?:the |my |each |a )?%[\d+]+ (?:is|are|do|does|have|has))"
)
_CLAUSE = re.compile(
    rf"(?:,| -+|:)? (?:and|but|so|because|since|while|although|though|therefore|"
    rf"and so|which means|that is why)(?: now| then| also)? (?={_SUBJECT}\b)|"
    rf"(?:,|:| -+) (?=(?:i|my|he|she|they|it|you|we|@[\d+]+ (?:is|are|was|were|and|looks|seems|"
    rf"might|"
    r"must|may|could)|please|vote)\b)|: (?=(?:their|his|her|its|an?|that|this|there)\b(?! #))|, "
    r"(?=who\b)|, as (?=(?:i|he|she|they|@[\d+]+)\b)|, (?=(?:a |the |each |my )?%[\d+]+ (?:is|"
    r"are)\b)"
)
_VERB = (
    r"(?:will|would|shall|am|have|do|trust|suspect|believe|think|vote|accept|&\d+|need|want|can)"
)
_VOCATIVE = re.compile(r"^@([\d+]+), (?=you\b)")


@dataclass(slots=True)
class _Speech:
    """One speech while it is read."""

    speaker: int
    vocabulary: Vocabulary
    claims: list[Claim] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    mentioned: tuple[int, ...] = ()
    """The players whom a pronoun refers to."""
    checked: tuple[int, ...] = ()
    """The players about whom the speaker has learned something."""
    announces: bool = False
    """Whether the last clause was about a check, but named no player: "I had a vision"."""
    is_quoted: bool = False
    stated: float | None = None
    """Probability that the sentence states."""
    unclear: bool = False
    """Whether a clause names something in an unknown form."""
    promises: PromiseReader = field(init=False)

    def __post_init__(self) -> None:
        words = self.vocabulary
        self.promises = PromiseReader(
            tuple(words.items), tuple(words.acts), self.speaker, self.listener
        )

    def listener(self, word: str) -> int | None:
        """Return the seat that a token or "you" names; None if it is not clear."""
        if word.startswith("@"):
            return int(word[1:])
        if self.vocabulary.num_players == 2:
            return 1 - self.speaker
        return self.mentioned[0] if len(self.mentioned) == 1 else None


class ClaimReader:
    """Reader of the speech of one game.

    Example:
        >>> words = Vocabulary(5, groups={"Seer": ("seer",), "Werewolf": ("werewolf", "wolf")})
        >>> text = "I'm the seer, and Player 3 is not a wolf."
        >>> reading = ClaimReader(words).read(text, speaker=1)
        >>> [str(claim) for claim in reading.claims]
        ['identity 1 Seer', 'not identity 3 Werewolf']
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._groups, self._acts = tuple(vocabulary.groups), tuple(vocabulary.acts)
        self._items = tuple(vocabulary.items)

    def read(self, text: str, speaker: int) -> SpeechReading:
        """Return the claims of a speech, in the order of its words. It never fails."""
        tokens = tokenise(text, self.vocabulary)
        speech = _Speech(speaker, self.vocabulary)
        if not phrases.IRONY.search(tokens):
            for sentence in _SENTENCE.findall(tokens):
                self._read_sentence(speech, sentence.strip())
        exists = [c for c in speech.claims if (c.player or 0) < self.vocabulary.num_players]
        names_unknown = len(exists) < len(speech.claims) or any(
            int(number) >= self.vocabulary.num_players
            for group in re.findall(r"@([\d+]+)", tokens)
            for number in group.split("+")
        )
        known = bool(exists) or _is_english(tokens)
        is_read = known and not names_unknown and not speech.unclear and len(text) <= LONGEST
        claims = tuple(dict.fromkeys(exists))
        asked = tuple(seat for seat in speech.asked if seat < self.vocabulary.num_players)
        return SpeechReading(claims, is_read, asked)

    # Sentences and clauses

    def _read_sentence(self, speech: _Speech, sentence: str) -> None:
        ending = sentence[len(sentence.rstrip(".!?;\n")) :]
        body = sentence.rstrip(".!?;\n ").strip(" ,-:")
        if not body:
            return
        if "?" in ending:
            self._read_question(speech, body)
            return
        body = rewrite(body, INDIRECT)
        body = phrases.INSERTED.sub(lambda found: "i " if found.start() == 0 else "", body)
        source = phrases.SAW.search(body)
        if source or phrases.FINDINGS.match(body):
            body = body[: source.start()] if source else phrases.FINDINGS.sub("", body)
            speech.checked += _seats("+".join(re.findall(r"@([\d+]+)", body)))
        body = phrases.TRAILING.sub(r"\2 \1", body)
        # "I trust him and will vote": the subject holds for both verbs.
        body = re.sub(rf"^(i .{{1,200}}?) and (?={_VERB}\b)", r"\1 and i ", body)
        if vocative := _VOCATIVE.match(body):
            speech.mentioned = _seats(vocative[1])
            body = body[vocative.end() :]
        if self._items and (promise := speech.promises.conditional(body)):
            speech.claims.append(promise)
            return
        speech.is_quoted, speech.stated = False, _percent(body)
        leading = phrases.NOT_CLAIMED.match(body)
        clauses = _CLAUSE.split(body)
        # "He is a wolf, because I checked him": the reason may come last.
        for clause in clauses:
            named = re.search(r"@([\d+]+)", clause)
            if named and _is_check(clause):
                speech.checked += _seats(named[1])
        for clause in clauses:
            relative = re.match(r"who \w", clause) and speech.checked
            if leading or (not relative and self._claims_nothing(speech, clause)):
                # A condition at the beginning rules the whole sentence.
                self._mention(speech, clause)
                continue
            self._read_clause(speech, clause.strip(" ,:-"))

    def _read_question(self, speech: _Speech, body: str) -> None:
        self._mention(speech, body)
        about = re.search(r"\b(?:you|your)\b", body)
        if about and ("#" in body or re.search(r"\b(?:check|inspect|role|card|who are)", body)):
            speech.asked += speech.mentioned

    def _claims_nothing(self, speech: _Speech, clause: str) -> bool:
        # "A says that B is a wolf, but I trust B": the quote ends where the speaker begins.
        if re.match(r"(?:i|my)\b", clause):
            speech.is_quoted = False
        if phrases.REPORTED.search(clause) and not re.search(
            r"\b(?:believe|trust) (?:what|a word|anything)\b", clause
        ):
            speech.is_quoted = True
        return speech.is_quoted or bool(phrases.NOT_CLAIMED.search(clause))

    def _mention(self, speech: _Speech, clause: str) -> None:
        if named := re.findall(r"@([\d+]+)", clause):
            speech.mentioned = _seats(named[-1])

    def _read_clause(self, speech: _Speech, clause: str) -> None:
        before = len(speech.claims)
        # A relative clause is about the player who was named last.
        clause = re.sub(r"^who (?=\w)", "they ", clause)
        if len(speech.mentioned) == 1:
            clause = phrases.PRONOUN.sub(rf"\1 @{speech.mentioned[0]}", clause)
        is_check = _is_check(clause)
        named = re.findall(r"@([\d+]+)", clause)
        if named:
            speech.mentioned = _seats(named[0])
        if named and (is_check or speech.announces):
            speech.checked += _seats(named[0])
        speech.announces = is_check and not named
        for claims in (
            self._holdings(speech, clause),
            self._intentions(speech, clause),
            self._identities(speech, clause, is_check),
            self._opinions(speech, clause),
        ):
            # An opinion in the clause of an identity would be the same claim twice.
            new = list(claims)
            speech.claims += new
            if new:
                break
        self._mention(speech, clause)
        speech.promises.name(clause)
        if len(speech.claims) == before and re.search(r"[#%]\d", clause) and named:
            speech.unclear = True

    # Claims of one clause

    def _identities(self, speech: _Speech, clause: str, is_check: bool) -> Iterator[Claim]:
        denied = bool(phrases.DENIED_BELIEF.search(clause))
        if own := phrases.OWN.search(clause):
            group = next(own[name] for name in ("here", "as", "have", "role") if own[name])
            yield self._identity(speech, speech.speaker, group, not own["neg"], None)
        if caught := phrases.FOUND.search(clause):
            speech.checked += _seats(caught["who"][1:])
            for seat in _seats(caught["who"][1:]):
                yield self._identity(speech, seat, caught["group"], True, None)
            return
        forms = (phrases.NEITHER, phrases.ACCUSED, phrases.IDENTITY, phrases.REVERSED)
        found = next(filter(None, (form.search(clause) for form in forms)), None)
        embedded = found and found.groupdict()["who"] != "both"
        if found and embedded and phrases.EMBEDDED.search(clause[: found.start()]) and not is_check:
            return
        if found is None:
            yield from self._results(speech, clause, is_check)
            return
        groups = found.groupdict()
        seats = self._who(speech, groups["who"])
        # "is a werewolf and must be stopped": only what comes before the end is a hedge of it.
        confidence = speech.stated or _confidence(clause[: found.end()])
        if (denied and not phrases.IMPOSSIBLE.search(clause)) or found.re is phrases.ACCUSED:
            confidence = confidence or HEDGED
        holds = not groups.get("neg") and not groups.get("cannot") and found.re != phrases.NEITHER
        if groups.get("cannot"):
            confidence = None
        for seat in seats:
            for group in filter(None, (groups["group"], groups.get("second"))):
                stated = None if seat == speech.speaker else confidence
                yield self._identity(speech, seat, group, holds != denied, stated)

    def _results(self, speech: _Speech, clause: str, is_check: bool) -> Iterator[Claim]:
        """Yield what the speaker found, in the clause of the check or in the next one."""
        text = clause
        if is_check and (named := re.search(r"@[\d+]+", clause)):
            text = clause[named.end() :]
        continues = re.match(r"(?:the|it|he|she|they|who|result|both|#|not|not #|and)\b|#", clause)
        if (is_check or continues) and speech.checked and (found := phrases.RESULT.search(text)):
            last = speech.checked if "both" in clause else _last_named(speech, clause, is_check)
            for seat in last:
                yield self._identity(speech, seat, found["group"], not found["neg"], None)

    def _identity(
        self, speech: _Speech, seat: int, group: str, holds: bool, confidence: float | None
    ) -> Claim:
        content = self._groups[int(group)]
        if seat != speech.speaker:
            content = self.vocabulary.of_others.get(content, content)
        kind = "sighting" if seat in speech.checked and seat != speech.speaker else "identity"
        if kind == "sighting":
            confidence = None
        return Claim(kind, seat, content, holds, confidence)  # type: ignore[arg-type]

    def _opinions(self, speech: _Speech, clause: str) -> Iterator[Claim]:
        verdict = phrases.VERDICT.search(clause)
        if verdict:
            seats = self._who(speech, verdict["who"])
            if seats != (speech.speaker,):
                holds = bool(verdict["bad"]) != bool(verdict["neg"])
                holds = holds != bool(phrases.DENIED_BELIEF.search(clause))
                # "I checked P3, so P3 is safe": the result says it.
                seen = {claim.player for claim in speech.claims if claim.kind == "sighting"}
                yield from (Claim("suspicion", s, "", holds) for s in seats if s not in seen)
                return
        for form in (*phrases.SUSPECTS, phrases.TRUSTS):
            if found := form.search(clause):
                # "I do not think that we can trust him".
                denied = phrases.DENIED_BELIEF.search(clause[: found.start()])
                turned = bool(denied or found.groupdict().get("neg"))
                suspects = turned == (form is phrases.TRUSTS)
                for seat in self._who(speech, found["who"]):
                    yield Claim("suspicion", seat, "", suspects)
                return
        yield from self._leaning(speech, clause)

    def _leaning(self, speech: _Speech, clause: str) -> Iterator[Claim]:
        """Yield an opinion by the words of a clause about one other player, in no known form."""
        named = re.findall(r"@([\d+]+)", clause)
        about_others = re.search(
            r"#|\b(?:your|quote|was wrong|wrong to)\b|\byou\b(?! (?:can|may|could|should)\b)",
            clause,
        )
        if len(named) != 1 or not named[0].isdigit() or about_others:
            return
        # An idiom of suspicion may hold a word of trust: "hard to trust".
        dark = phrases.DARK.search(clause)
        if not dark and not phrases.BRIGHT.search(clause):
            return
        # "not sit right" is an idiom: its own denial does not turn it around.
        rest = clause[: dark.start()] + clause[dark.end() :] if dark else clause
        holds = bool(dark) != bool(len(phrases.DENIALS.findall(rest)) % 2)
        if int(named[0]) != speech.speaker:
            yield Claim("suspicion", int(named[0]), "", holds)

    def _intentions(self, speech: _Speech, clause: str) -> Iterator[Claim]:
        if self._items and (promised := list(speech.promises.offers(clause))):
            yield from promised
            return
        if not self._acts:
            return
        if "vote" in self._acts and (vote := phrases.VOTE.search(clause)):
            refused = (vote["aux"] or "").startswith(("refuse", "do not"))
            holds = not (vote["neg"] or vote["neg2"] or refused)
            for seat in self._who(speech, vote["who"] or vote["who2"] or ""):
                yield Claim("intention", seat, "vote", holds)
        elif "abstain" in self._acts and phrases.NO_VOTE.fullmatch(clause):
            yield Claim("intention", None, "abstain")
        elif act := phrases.ACT.search(clause):
            refused = (act["aux"] or "").startswith(("refuse", "do not"))
            yield Claim(
                "intention",
                None,
                self._acts[int(act["act"] or act["act2"] or act["act3"] or act["act4"])],
                not (act["neg"] or act["neg2"] or refused),
            )

    def _holdings(self, speech: _Speech, clause: str) -> Iterator[Claim]:
        if not self._items or re.search(r"\b(?:worth|worthless|valuable) to you\b", clause):
            return
        for form, sign in HOLDINGS:
            if (found := form.search(clause)) is None:
                continue
            groups = found.groupdict()
            value = f"={int(groups['number'])}" if sign == "=" else sign
            if groups.get("neg"):
                value = ">0"
            items = next(groups[n] for n in ("item", "item2", "item3") if groups.get(n))
            for number in _seats(items):
                yield Claim("holding", speech.speaker, f"{self._items[number]}{value}")
            return

    def _who(self, speech: _Speech, word: str) -> tuple[int, ...]:
        """Return the seats that a token or a pronoun names."""
        if word.startswith("@"):
            return _seats(word[1:])
        if word in ("i", "me"):
            return (speech.speaker,)
        return speech.mentioned


def _is_check(clause: str) -> bool:
    return bool(phrases.CHECK.search(clause)) and " not check" not in clause


def _last_named(speech: _Speech, clause: str, is_check: bool) -> tuple[int, ...]:
    named = re.findall(r"@([\d+]+)", clause)
    return _seats(named[0]) if is_check and named else speech.mentioned or speech.checked[-1:]


def _seats(joined: str) -> tuple[int, ...]:
    return tuple(int(number) for number in joined.split("+") if number)


def _percent(clause: str) -> float | None:
    percent = phrases.PERCENT.search(clause)
    return min(100, int(percent[1])) / 100 if percent else None


def _confidence(clause: str) -> float | None:
    stated = _percent(clause)
    return HEDGED if stated is None and phrases.HEDGE.search(clause) else stated


def _is_english(tokens: str) -> bool:
    words = re.findall(r"[^\W\d_]+|[@#%&]\d+", tokens)
    known = sum(word[0] in "@#%&" or word in phrases.COMMON_WORDS for word in words)
    return bool(words) and 2 * known >= len(words)
