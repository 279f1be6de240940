"""Claims: typed statements that players make by speech, bids and acceptances.

A claim has a text codec, `str(claim)` and `Claim.parse`:

    identity 3 Werewolf          player 3 is a werewolf
    not sighting 3 Werewolf      the speaker learned by its role that player 3 is no werewolf
    suspicion 3                  the speaker suspects player 3; `not suspicion 3`: it trusts
    intention - approve          the speaker will approve; `intention 3 vote`: vote for player 3
    intention 1 gets 2 hat       the speaker's next offer gives player 1 two hats or more
    intention 0 accept for all hat   the speaker accepts an offer with all hats for player 0
    holding 0 hat=3              a hat is worth 3 to player 0
    bid 1 3 fives                player 1 bids three fives
    acceptance 1 0 2 1           player 1 takes this share
    identity 3 Werewolf 60%      with a stated confidence
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, get_args

from arena.core.action import Action
from arena.core.analysis import Knowledge
from arena.core.errors import ArenaError
from arena.core.event import Event

if TYPE_CHECKING:
    from arena.core.observation import ObservedGame

ClaimKind = Literal[
    "identity", "sighting", "suspicion", "intention", "holding", "bid", "acceptance"
]
_KINDS: tuple[ClaimKind, ...] = get_args(ClaimKind)
HEDGED = 0.6
"""Confidence of a hedged claim without a number: "I think", "probably"."""
Truth = Literal["lie", "bluff", "honest", "unsupported"]

_CLAIM = re.compile(r"(not )?([a-z]+) (-|\d{1,3})(?: (.*?))?(?: (\d{1,3})%)?")


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a speaker."""

    kind: ClaimKind
    player: int | None
    """The seat that it is about; None if it is about none."""
    content: str = ""
    """A role, a side, an announced act or a value, by the name that the game gives it."""
    holds: bool = True
    """False for a negated claim."""
    confidence: float | None = None
    """Stated probability; None for a plain claim."""

    def __str__(self) -> str:
        confidence = "" if self.confidence is None else f"{round(100 * self.confidence)}%"
        who = "-" if self.player is None else str(self.player)
        words = ("" if self.holds else "not", self.kind, who, self.content, confidence)
        return " ".join(filter(None, words))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the claim of a text. Raises ArenaError for any other text."""
        found = _CLAIM.fullmatch(text)
        kind = next((name for name in _KINDS if found and found[2] == name), None)
        if not found or kind is None:
            raise ArenaError(f"'{text[:60]}' is not a claim, such as 'identity 3 Werewolf'")
        player = None if found[3] == "-" else int(found[3])
        confidence = int(found[5]) / 100 if found[5] else None
        return cls(kind, player, found[4] or "", not found[1], confidence)


@dataclass(frozen=True, slots=True)
class SpeechReading:
    """Claims that were read from one speech."""

    claims: tuple[Claim, ...] = ()
    is_read: bool = True
    """False if a part names a player, a role or an item in a form that is not known, if a player
    does not exist, or if most words are not those of a known language."""
    asked: tuple[int, ...] = ()
    """Players who are asked about their role or their knowledge."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words by which the players of a game name what claims are about, in lower case."""

    num_players: int
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Phrases by the role or side that they name."""
    of_others: Mapping[str, str] = field(default_factory=dict)
    """Roles that mean a side when they are said about another player, because only the own role is
    known: "the inspected player is a villager"."""
    acts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Verbs by the act that they announce."""
    items: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Nouns by the item of private value that they name."""


class GameTalk:
    """Facet of a game: how its speech is read, which moves are claims, and when a claim is true."""

    bluff_below: float = 0.2
    """A claim that is possible, but less probable than this by the speaker's exact knowledge, is
    a bluff."""
    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of speech; the default reads no speech."""
        return Vocabulary(self.game.num_players)

    def move_claims(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Claim]:
        """Return the claims that a move other than speech makes: a bid, an accepted offer."""
        return ()

    def probability(self, claim: Claim, speaker: int, knowledge: Knowledge) -> float | None:
        """Return the exact probability of a claim by what its speaker knows.

        None means that the claim is about no fact: an intention. Opinions ("I suspect") have the
        probability of what they are about.
        """
        return None

    def is_kept(
        self, claim: Claim, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a later move of the speaker keeps an intention; None: it does neither.

        `events` are all events before the move.
        """
        return None

    def is_promise(self, claim: Claim, speaker: int) -> bool:
        """Return whether an intention promises a listener something."""
        return False

    def is_lasting(self, claim: Claim) -> bool:
        """Return whether an intention stays in force when the speaker announces another move."""
        return False

    def contradict(self, first: Claim, second: Claim, speaker: int) -> bool:
        """Return whether two claims of one speaker cannot both be true.

        The default compares claims that differ in nothing but their negation.
        """
        alike = (first.kind, first.player, first.content)
        return alike == (second.kind, second.player, second.content) and (
            first.holds != second.holds
        )

    def truth(self, claim: Claim, probability: float) -> Truth:
        """Return the class of a claim by its probability in the speaker's view.

        lie: 0; honest: 1; bluff: below `bluff_below` and stated without a hedge; else unsupported.
        A stated probability below one half claims the opposite, so the opposite is judged.
        """
        if claim.confidence is not None and claim.confidence < 0.5:
            probability = 1 - probability
        if probability <= 0:
            return "lie"
        if probability >= 1:
            return "honest"
        is_plain = claim.confidence is None
        return "bluff" if is_plain and probability < self.bluff_below else "unsupported"
