"""Parser of replies: finds the action that a model's reply means, in every game.

Evidence is searched in this order; the first kind that the reply contains decides, even if what it
names is illegal or incomplete:

1. JSON, also in a fence or as a tool call: `{"action": "suggest ..."}`, or a verb (under "action",
   "type", "kind", "name") with the fields of the action under their names, nested or not. In one
   object the action outweighs the rest, e.g. a "reasoning".
2. A marked answer: behind a label ("Action:", "Final answer:"), in a tag (`<action>`) or in
   `\\boxed{}`; or the choice of one of several numbered options.
3. A line, or the whole reply, that is an action and nothing else.
4. Prose: mentions of actions behind a negation or a condition, in a question, or put off to a later
   turn do not count (see `context`). An irrevocable action (`Game.is_irrevocable`) needs words that
   announce it as the decision, "I accuse ...".

Different answers of the same kind contradict each other, unless words between them take the first
one back ("Wait, ...") or the last one is marked as final. Then the reply is undecided.

In all of them:

- `<think>` blocks are not searched. One that is never closed goes on to the end, and one that was
  opened in the prompt begins with the reply.
- Case, punctuation, markdown and little joining words do not matter ("with the", "in the", "I"...).
  Neither does the order of names that commas part: "suggest Kitchen, Rope, Green".
- A game's synonyms count as its own words (`GameText.synonyms`): in Cluedo the names of both
  editions, "Mustard" alone, "reveal" for "show".
- Speech, such as `say TEXT`, is read where an action may stand: in JSON, behind a mark or as the
  last or first line. It is never taken from prose.
- Full-width letters and other forms of a letter (NFKC) count if there is no action without them.
- A call of a function that the limit on tokens cut off is no action. In another reply that was cut
  off, an action counts only where it stands alone on the first or the last line.
- A short text may leave out what is obvious: "Candlestick" where a card must be shown, or a
  beginning that fits one legal action only.

Outside of think blocks only the last 16,384 characters are read, so that no reply holds up the
event loop. What is left is a failure, and `arena.agents.reply.reading` answers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest

from arena.agents.reply import context
from arena.agents.reply.marks import (
    DECODER,
    MAX_CONTENT,
    ReplyLine,
    ReplyPart,
    chosen_option,
    labelled,
    lines,
    split_json,
)
from arena.agents.reply.phrasebook import phrasebook
from arena.agents.reply.reading import (
    EXCERPT_LENGTH,
    ActionClaim,
    Mention,
    Reading,
    TextReader,
    correction,
    failed,
    find_mentions,
    settle,
    shorten,
)
from arena.core.action import Action, Speech, normalise
from arena.core.errors import InvalidAction
from arena.core.observation import Observation
from arena.core.text import one_line, plain_letters
from arena.llm.backend import FinishReason

MAX_REPLY, MAX_READ = 1 << 20, 1 << 14
"""Last characters of a reply in which think blocks are looked for, and of the text outside them."""
MAX_MENTIONS = 400
"""Only so many of the last mentions in prose are read."""

_THINK = re.compile(r"[<\[](/?)(?:think|thinking|thought|reasoning)[>\]]", re.IGNORECASE)
_ASIDE = re.compile(
    r"<(?P<name>analysis|plan|planning|scratchpad|reflection|notes?|rationale|explanation|thoughts"
    r"|deductions?|strategy|observations?|critique|reason)>(?:(?!<(?P=name)>).){0,20000}?</(?P=name)>",
    re.IGNORECASE | re.DOTALL,
)
"""A closed block that explains; one that is never closed may hold the answer too, so it stays."""
_SPECIAL_TOKEN = re.compile(r"<\|[^|>\n]{1,40}\|>")
"""Control tokens of a chat template that a server did not remove, "<|begin_of_box|>"."""

_CALL = re.compile(r"[<\[](?:tool_call|function_call)[>\]]|\{\s*\"(?:name|function)\"\s*:", re.I)
"""Beginning of a call of a function."""


def visible(text: str) -> str:
    """Return the end of the text outside think blocks and asides."""
    text, kept = text[-MAX_REPLY:], list[str]()
    at, is_open, was_open = 0, False, False
    for tag in _THINK.finditer(text):
        closes = bool(tag[1])
        # A closing tag without an opening one: the prompt opened the block, so all text so far was
        # thought.
        if closes and not was_open:
            kept.clear()
        elif not closes and not is_open:
            kept.append(text[at : tag.start()])
        if closes or not is_open:
            at = tag.end()
        # Blocks do not nest: the first closing tag ends the block.
        is_open, was_open = not closes, True
    # The text behind an unclosed tag is thought, up to the end.
    if not is_open:
        kept.append(text[at:])
    return _without_asides(_SPECIAL_TOKEN.sub("\n", "\n".join(kept)[-MAX_READ:]))


def _without_asides(text: str) -> str:
    """Return the text without asides, unless nothing else is left."""
    outside = _ASIDE.sub("\n", text)
    return outside if re.search(r"\w", outside) else text


def _without_cut_call(text: str) -> str:
    """Return the text of a reply that was cut off, without the call that was being written."""
    at = 0
    for call in _CALL.finditer(text):
        if call.start() < at:
            continue
        try:
            at = DECODER.raw_decode(text, text.index("{", call.start()))[1]
        except (ValueError, RecursionError):
            return text[: call.start()]
    return text


def read_reply(
    text: str, observation: Observation, finish_reason: FinishReason = "stop", refusal: str = ""
) -> Reading:
    """Find the action in a reply; see the module for what counts. Never raises."""
    # The provider's own statement outweighs the text, which may be a fragment.
    if refusal or finish_reason == "content_filter":
        return failed("refused", refusal or text)
    book, cut = phrasebook(observation.game), finish_reason == "length"
    shown = _without_cut_call(visible(text)) if cut else visible(text)
    # A cut-off "bid 1" may have been "bid 12", so an incomplete number does not count.
    if cut and (number := re.search(r"[0-9]{1,9}\Z", shown)) and book.has_longer(number[0]):
        shown = shown[: number.start()]
    # Fast path for a reply that is exactly one legal action. It also decides for actions whose
    # texts have the same words.
    exact = book.by_text.get(shown.strip())
    if exact is not None and exact in observation.legal_actions:
        return Reading(exact, None, shorten(shown))
    if not any(character.isprintable() and not character.isspace() for character in shown):
        return failed("truncated" if cut else "empty", text[-EXCERPT_LENGTH:])
    reading = _Reply(shown, observation, cut).read()
    if reading.action is None and (plain := plain_letters(shown)[-MAX_READ:]) != shown:
        again = _Reply(plain, observation, cut).read()
        return reading if again.action is None else again
    return reading


def read_action(text: str, observation: Observation) -> Action:
    """Return the action in a reply. Raises InvalidAction, with a correction, if it has none."""
    reading = read_reply(text, observation)
    if reading.action is None:
        raise InvalidAction(correction(reading, observation))
    return reading.action


class _Reply:
    """One reply, and what its game has to say about it."""

    def __init__(self, shown: str, observation: Observation, cut: bool) -> None:
        self._game = observation.game
        self._reader = TextReader(observation)
        self._book, self._legal = self._reader.book, self._reader.legal
        self._cut = cut
        self._shown = shown
        self._text, self._json = split_json(shown, self._book)
        folded = self._text.casefold()
        if len(folded) != len(self._text):  # Some letters become two, and places would shift.
            self._text = folded
        self._folded = folded

    def read(self) -> Reading:
        """Return the reading of the strongest evidence."""
        explicit = self._from_json, self._from_marks, self._from_other_answer
        for evidence in (*explicit, self._from_lines, self._from_prose):
            reading = evidence()
            # More tokens might have completed what was cut off.
            if reading is not None and not (self._cut and self._may_go_on(reading)):
                return reading
        return self._failure()

    def _may_go_on(self, reading: Reading) -> bool:
        """Return whether more tokens might change what a reply says that was cut off."""
        if isinstance(reading.action, Speech):
            return one_line(self._text[-MAX_CONTENT:]).endswith(reading.action.text[-80:])
        if reading.action is None or (self._json and _CALL.search(self._shown)):
            return reading.action is None
        # Alone on the first or the last line an action is an answer, elsewhere perhaps an example.
        lines_shown = self._shown.strip().split("\n")
        alone = map(self._reader.brief, (self._shown, lines_shown[0], lines_shown[-1]))
        return all(each is None or each.action != reading.action for each in alone)

    def _from_json(self) -> Reading | None:
        claims = []
        for number, answer in enumerate(self._json):
            if answer.action is not None:
                reading = self._reader.choose([answer.action], str(answer.action))
            else:
                # A head that is a whole action outweighs what the fields together may mean.
                readings = [r for text in answer.texts if (r := self._reader.marked(text))]
                if not readings:
                    continue
                reading = next((r for r in readings if r.action is not None), readings[-1])
            claims.append(ActionClaim(reading, number, number))
        return settle(claims, "")

    def _from_marks(self) -> Reading | None:
        """Read labels, tags and boxes, and the choice of a numbered option."""
        claims, options = list[ActionClaim](), self._options
        speech_end = 0
        for mark in labelled(self._text):
            # What looks like a label within speech is a part of it.
            if mark.start < speech_end:
                continue
            # Digits are also arguments of actions, so an option is tried second.
            option = options.get(normalise(mark.text).removeprefix("option ").strip())
            reading = self._reader.marked(mark.text)
            if option is not None and (reading is None or reading.failure):
                reading = self._reader.marked(option.text)
            if reading is not None:
                claims.append(ActionClaim(reading, mark.start, mark.end, mark.is_final))
                if isinstance(reading.action, Speech):
                    speech_end = mark.end
        chosen = None if claims else chosen_option(self._folded, options)
        return self._reader.marked(chosen.text) if chosen else settle(claims, self._folded)

    def _from_other_answer(self) -> Reading | None:
        """Refuse an answer that names no action: the model only talked about those before it."""
        is_marked = any(re.search(r"\w", mark.text) for mark in labelled(self._text))
        # A last line that is an action stands behind what only looked like a label.
        last = next((line.part.text for line in reversed(self._lines)), "")
        if self._json or (is_marked and not self._reader.brief(last)):
            return failed("unparsable", self._text)
        return None

    @cached_property
    def _options(self) -> dict[str, ReplyPart]:
        """Return the items of lists that name an action, by number, letter or position."""
        options: dict[str, ReplyPart] = {}
        for line in self._lines:
            key = line.number or f"item {len(options)}"
            # "Option 2: …" further down is the choice; the first line with a number defines it.
            if line.is_item and key not in options and self._reader.marked(line.part.text):
                options[key] = line.part
        return options if len(options) > 1 else {}

    def _from_lines(self) -> Reading | None:
        """Read the whole reply, or lines that consist of an action."""
        # Of speech the last line counts, or the first, which explanations may follow.
        refused = None
        for index in (-1, 0) if self._lines else ():
            spoken = self._reader.spoken(self._lines[index].part.text)
            if spoken and (spoken.action or index == -1):
                return spoken
            refused = refused or spoken
        # After a first line of speech that is not legal now, another line may be the action.
        whole = None if refused else self._reader.brief(self._text)
        if whole is not None:
            return whole
        alone = [
            (line, claim)
            for line in self._lines[1 if refused else 0 :]
            if (claim := self._claim(line.part) or (line.lead and self._claim(line.lead)))
        ]
        items = sum(line.is_item for line, _ in alone)
        # Several items of lists are options or steps of a plan.
        claims = [c for line, c in alone if c.reading.action and not (line.is_item and items > 1)]
        if not claims:
            return refused
        last = claims[-1]
        before = [c for c in claims[:-1] if c.reading.action != last.reading.action]
        # The last line is where an answer belongs, unless it continues a list of actions.
        is_last_line = last.end >= self._lines[-1].part.end
        apart = not before or re.search(r"\w", self._folded[before[-1].end : last.start])
        if is_last_line and apart:
            return last.reading
        # Prose after the line may take it back.
        later = [c for c in self._asserted if c.start >= last.end]
        if later and context.is_revised(self._folded[last.end : later[-1].start]):
            claims += later
        return settle(claims, self._folded)

    def _claim(self, part: ReplyPart) -> ActionClaim | None:
        reading = self._reader.brief(part.text)
        if reading is None or not context.counts(self._folded, part.start, part.end, part.heading):
            return None
        return ActionClaim(reading, part.start, part.end)

    def _from_prose(self) -> Reading | None:
        # The reasoning of a reply that was cut off may have gone on to another decision, and one
        # that ends with a question to the reader leaves the decision open.
        if self._cut or context.asks_reader(self._folded):
            return None
        claims: list[ActionClaim] = []
        for claim in self._asserted:
            # "suggest …, then end my turn": the second step is not this decision.
            if not claims or not context.is_sequel(self._folded[claims[-1].end : claim.start]):
                claims.append(claim)
        reading = settle(claims, self._folded)
        if reading is None:
            ends = (self._claim(part) for part in self._ends())
            reading = next((c.reading for c in ends if c and c.reading.action), None)
        return reading or self._only_completion()

    def _only_completion(self) -> Reading | None:
        """Return the one legal action that the last part of an action can mean."""
        parts = [m for m in self._mentions if m.parts.args and not m.actions]
        if not parts or not self._counts(parts[-1]):
            return None
        reading = self._reader.part(parts[-1], self._excerpt(parts[-1]))
        # An irrevocable action is named in full.
        return reading if reading.action and not self._game.is_irrevocable(reading.action) else None

    @cached_property
    def _lines(self) -> list[ReplyLine]:
        return lines(self._text)

    @cached_property
    def _mentions(self) -> list[Mention]:
        # Each is looked at in its context, so their number is limited; the answer is usually last.
        return find_mentions(self._book, self._folded, self._text)[-MAX_MENTIONS:]

    @cached_property
    def _asserted(self) -> list[ActionClaim]:
        """Return the mentions of one legal action each that the author asserts."""
        claims: list[ActionClaim] = []
        for mention, following in zip_longest(self._mentions, self._mentions[1:]):
            if following and context.is_joined_by_or(self._folded[mention.end : following.start]):
                continue
            legal = [action for action in mention.actions if action in self._legal]
            if len(legal) != 1 or not self._counts(mention):
                continue
            if self._game.is_irrevocable(legal[0]) and not context.is_committed(
                self._folded, mention.start
            ):
                continue
            reading = Reading(legal[0], None, self._excerpt(mention))
            claims.append(ActionClaim(reading, mention.start, mention.end))
        return claims

    def _counts(self, mention: Mention) -> bool:
        # "Suggesting … would show", "Player 1 suggests …" state no decision of the author.
        text, start, end = self._folded, mention.start, mention.end
        if not context.counts(text, start, end) or context.is_alternative(text, start, end):
            return False
        if mention.actions and self._reader.lists(mention, text):
            return False
        return not self._book.is_inflected(text[start:end]) or context.is_first_person(text, start)

    def _ends(self) -> Iterator[ReplyPart]:
        """Yield the last line that says more than "Final answer:", and its last sentence."""
        fillers, parts = self._book.fillers, (line.part for line in reversed(self._lines))
        filled = (p for p in parts if not fillers.issuperset(normalise(p.text).split()))
        last = next(filled, None)
        if last is not None:
            yield last
            text = last.text.rstrip(" .!?:;*`")
            starts = [0, *(found.end() for found in re.finditer(r"[.!?:;]\s+", text))]
            yield ReplyPart(text[starts[-1] :], last.start + starts[-1], last.start + len(text))

    def _failure(self) -> Reading:
        # Checked first: with more tokens the reply might have named an action.
        if self._cut:
            return failed("truncated", self._text[-EXCERPT_LENGTH:])
        # Only the beginning is read: later "I cannot ..." is usually reasoning about the rules.
        if context.is_refusal(self._folded[:400]):
            return failed("refused", self._text)
        brief = next((r for m in self._ends() if (r := self._reader.brief(m.text))), None)
        return brief or self._named_failure() or failed("unparsable", self._text)

    def _named_failure(self) -> Reading | None:
        """Read the last action or part of one; a lone head counts only if there is nothing more."""
        named = [m for m in self._mentions if self._counts(m)]
        telling = [m for m in named if m.parts.args or m.actions]
        if not named:
            return None
        last = (telling or named)[-1]
        if any(action in self._legal for action in last.actions) or self._can_become_legal(last):
            return failed("ambiguous", self._excerpt(last))
        return failed("illegal", self._excerpt(last)) if telling else None

    def _can_become_legal(self, mention: Mention) -> bool:
        if mention.actions:
            return False
        parts = mention.parts
        # These arguments belong to no action together; the head alone decides.
        if not self._book.fitting(parts):
            return any(self._book.parts[action].head == parts.head for action in self._legal)
        return bool(self._book.fitting(parts, self._legal))

    def _excerpt(self, mention: Mention) -> str:
        return shorten(self._text[mention.start : mention.end])
