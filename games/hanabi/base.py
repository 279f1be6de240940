"""Options and measures of Hanabi, and the base of its game class for rules and inference."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from arena import Action, Game, GameOptions, Measure
from arena.core.analysis import Fact
from games.hanabi.cards import HanabiDeck
from games.hanabi.moves import DiscardSlot, HintColour, HintRank, PlaySlot


class HanabiOptions(GameOptions):
    """Options of `hanabi`; the defaults are the rules of the card game."""

    players: int = Field(2, ge=2, le=5, description="Number of seats.")
    colours: int = Field(5, ge=1, le=5, description="Number of colours.")
    ranks: int = Field(5, ge=1, le=5, description="Highest rank of a card.")
    hand_size: int = Field(
        0, ge=0, le=5, description="Cards per hand; 0 means 5, or 4 for 4 or 5 players."
    )
    hint_tokens: int = Field(8, ge=1, le=8, description="Hint tokens: at the start, and at most.")
    lives: int = Field(3, ge=1, le=3, description="Wrong plays that end the game.")
    lost_score: Literal["zero", "kept"] = Field(
        "zero", description="Score when all lives are lost: 'zero', or 'kept' as it was."
    )

    @property
    def cards_per_hand(self) -> int:
        """Number of cards in a full hand."""
        # The rules of the card game: four cards each from four players on.
        return self.hand_size or (5 if self.players < 4 else 4)

    @model_validator(mode="after")
    def _deck_suffices(self) -> Self:
        # As in the Hanabi Learning Environment, the deck may be empty after the deal.
        size = HanabiDeck(self.colours, self.ranks).size
        if self.players * self.cards_per_hand > size:
            raise ValueError(
                f"{self.players} hands of {self.cards_per_hand} cards need more than the deck's "
                f"{size}: set a smaller hand_size, or more colours or ranks"
            )
        return self


class HanabiBase(Game, ABC):
    """Options, deck and actions; `Hanabi` adds the rest of the game.

    It is separate from `Hanabi`, so that rules, inference and text can import it without importing
    the modules that `Hanabi` uses.
    """

    name = "hanabi"
    Options = HanabiOptions
    options: HanabiOptions

    @cached_property
    def num_players(self) -> int:
        """Number of seats."""
        return self.options.players

    @cached_property
    def deck(self) -> HanabiDeck:
        """The cards of this game."""
        return HanabiDeck(self.options.colours, self.options.ranks)

    @cached_property
    def hand_size(self) -> int:
        """Cards in a full hand."""
        return self.options.cards_per_hand

    def score(self, fireworks: tuple[int, ...], lives: int) -> int:
        """Return the cards in the fireworks; 0 after the last life, unless the option keeps them.

        Args:
            fireworks: The highest rank played so far in each colour.
            lives: Lives left.
        """
        # Bard et al. (2020): a team that loses its last life scores 0.
        lost = lives == 0 and self.options.lost_score == "zero"
        return 0 if lost else sum(fireworks)

    def others(self, player: int) -> tuple[int, ...]:
        """Return all seats but one, in turn order from its left."""
        return tuple((player + step) % self.num_players for step in range(1, self.num_players))

    def _all_actions(self) -> Iterable[Action]:
        # A hint to oneself is never legal, but one table serves all seats.
        slots = range(1, self.hand_size + 1)
        yield from map(PlaySlot, slots)
        yield from map(DiscardSlot, slots)
        for target in range(self.num_players):
            yield from (HintColour(target, colour) for colour in self.deck.colour_names)
            yield from (HintRank(target, rank) for rank in range(1, self.deck.ranks + 1))


MEASURES: tuple[Measure, ...] = (
    Measure(
        "certain_plays",
        "certain plays",
        "share",
        "higher",
        "Cards played that fitted for certain, by the player's exact knowledge without the meaning "
        "of conventions; over cards played.",
    ),
    Measure(
        "play_probability",
        "probability of plays",
        "probability",
        "higher",
        "Exact probability, in the player's view, that the card it played would fit; over cards "
        "played. Plays that trust a convention have a low probability here and still fit.",
    ),
    Measure(
        "fitting_plays",
        "plays that fitted",
        "share",
        "higher",
        "Cards played that fitted, over cards played.",
    ),
    Measure(
        "certain_taken",
        "certain plays taken",
        "share",
        None,
        "Turns in which a card was played that fitted for certain, over turns in which the player "
        "held such a card.",
    ),
    Measure(
        "discard_risk",
        "risk of discards",
        "probability",
        "lower",
        "Exact probability, in the player's view, that the card it discarded was the last copy of "
        "a card that could still score; over discards.",
    ),
    Measure(
        "hint_bits",
        "bits per hint",
        "bits per hint",
        "higher",
        "Entropy of the receiver's hand, in its own exact view, before the hint minus after it; "
        "over hints.",
    ),
    Measure(
        "lives_lost",
        "lives lost",
        "lives per game",
        "lower",
        "Plays of the seat that did not fit, per game.",
    ),
)

FACTS: dict[str, Fact] = {
    "probability": Fact(
        "%", "probability that the played card fits, in the seat's exact view", ranks="plays"
    ),
    "best": Fact("%", "probability that the likeliest slot fits", of_position=True),
    "risk": Fact("%", "probability that the discarded card is the last copy of a needed card"),
    "useless": Fact("%", "probability that the discarded card can no longer score"),
    "bits": Fact("bits", "information of the hint about the receiver's hand"),
}
"""Descriptions of the facts of assessments, by name."""
