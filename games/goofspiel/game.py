"""Goofspiel: sealed bids for prizes. A template for games with simultaneous moves.

S. M. Ross, "Goofspiel: the game of pure strategy", Journal of Applied Probability 8 (1971),
621-625: if the highest bid is tied, no player gets the prize. As in OpenSpiel's `goofspiel`, more
than two may play, and returns depend on winning only, not on the margin (its default,
`returns_type=win_loss`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ArraySpec,
    Card,
    ChanceOutcome,
    Decision,
    Event,
    Game,
    GameAnalysis,
    GameArrays,
    GameText,
    Notes,
    Observation,
    Panel,
    PlayGuide,
    ReturnScale,
    Seat,
    State,
    Step,
    Tabletop,
    TileRow,
    Track,
    Tracks,
)
from arena.agents.agent import MixedBot
from arena.core.game import SeatOptions
from arena.core.observation import NotesView
from arena.core.view import Display, Part, Tone

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GoofspielOptions(SeatOptions):
    """Options of `goofspiel`."""

    players: int = Field(2, ge=2, le=4, description="Number of seats.")
    cards: int = Field(
        6,
        ge=2,
        le=13,
        description="Number of prizes and of cards in each hand; a full suit has 13.",
    )
    prizes: Literal["random", "descending"] = Field(
        "random", description="Order of the prizes: 'random' or 'descending'."
    )


@dataclass(frozen=True, slots=True)
class TurnUp(Action, template="turn up {self.prize}"):
    """Chance: turn up the next prize."""

    prize: int


@dataclass(frozen=True, slots=True)
class Bid(Action, template="bid {self.card}"):
    """Commit a card from the own hand, face down."""

    card: int


@dataclass(frozen=True, slots=True)
class PrizeTurnedUp(Event):
    """Public: the prize of this round."""

    prize: int


@dataclass(frozen=True, slots=True)
class BidsRevealed(Event):
    """Public: all bids of the round, after the last player has committed."""

    prize: int
    bids: tuple[int, ...]
    winner: int | None
    points: tuple[int, ...]
    """Points of each player so far, this prize included."""


class Goofspiel(Game):
    """Two to four players with equal hands; only the bids of the current round are hidden.

    Example:
        >>> state = Goofspiel(cards=3).initial_state()
        >>> state.apply(CHANCE, TurnUp(2))
        >>> state.apply(0, Bid(1))
        >>> state.apply(1, Bid(3))
        >>> state.points
        (0, 2)
    """

    Text = "games.goofspiel.game:GoofspielText"
    Analysis = "games.goofspiel.game:GoofspielAnalysis"
    Arrays = "games.goofspiel.game:GoofspielArrays"
    View = "games.goofspiel.game:GoofspielView"

    name = "goofspiel"
    summary = "sealed bids for prizes"
    Options = GoofspielOptions
    options: GoofspielOptions
    default_bots = ("nearby", "random")
    return_scale = ReturnScale("score", "", -1.0, 1.0)

    @cached_property
    def deck(self) -> tuple[int, ...]:
        """The cards of each hand, and the prizes, from 1."""
        return tuple(range(1, self.options.cards + 1))

    @property
    def turn_bound(self) -> int:
        """One turn for each prize."""
        return self.options.cards

    def _all_actions(self) -> Iterable[Bid]:
        return map(Bid, self.deck)

    def initial_state(self) -> GoofspielState:
        return GoofspielState(self)


@lru_cache(maxsize=8192)  # All sets of 13 prizes. They are public.
def turn_ups(prizes: tuple[int, ...]) -> tuple[ChanceOutcome, ...]:
    """Return the prizes that may be turned up, each with the same probability."""
    return tuple(ChanceOutcome(TurnUp(prize), 1 / len(prizes)) for prize in prizes)


def without(hands: tuple[tuple[int, ...], ...], bids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the hands after each player has bid one card."""
    pairs = zip(hands, bids, strict=True)
    return tuple([tuple([card for card in hand if card != bid]) for hand, bid in pairs])


class GoofspielState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Goofspiel

    def __init__(self, game: Goofspiel) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.prizes = game.deck
        self.prize = 0
        self.hands = (game.deck,) * game.num_players
        self.bids: dict[int, int] = {}
        self.points = (0,) * game.num_players

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the remaining prizes; in descending order, only the highest."""
        return turn_ups(self.prizes if self.game.options.prizes == "random" else self.prizes[-1:])

    def _legal_actions(self, player: int) -> ActionSet:
        # The cards of a hand from 1 are the actions from 0; a hand follows from the open bids.
        return self.game.actions.public(tuple([card - 1 for card in self.hands[player]]))

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, TurnUp):
            self._turn_up(action.prize)
        elif isinstance(action, Bid):
            # The bid is sealed: there is no event before all players have committed.
            self.bids = {**self.bids, player: action.card}
            self.to_act = tuple([seat for seat in self.to_act if seat != player])
            if not self.to_act:
                self._reveal()

    def _turn_up(self, prize: int) -> None:
        self._begin_turn(*range(self.game.num_players))
        self.prize = prize
        self.prizes = tuple([other for other in self.prizes if other != prize])
        self.log.append(PrizeTurnedUp(prize))

    def _reveal(self) -> None:
        bids = tuple([self.bids[seat] for seat in range(self.game.num_players)])
        highest = max(bids)
        winner = bids.index(highest) if bids.count(highest) == 1 else None
        if winner is not None:
            won = self.points[winner] + self.prize
            self.points = (*self.points[:winner], won, *self.points[winner + 1 :])
        self.hands = without(self.hands, bids)
        self.bids = {}
        self.to_act = (CHANCE,) if self.prizes else ()
        self.log.append(BidsRevealed(self.prize, bids, winner, self.points))

    def returns(self) -> tuple[float, ...]:
        """Return 1 shared by the leaders and -1 shared by the others; 0 if all are equal."""
        players, most = self.game.num_players, max(self.points)
        leaders = [player for player, points in enumerate(self.points) if points == most]
        if self.to_act or len(leaders) == players:
            return (0.0,) * players
        won, lost = 1 / len(leaders), -1 / (players - len(leaders))
        return tuple(won if player in leaders else lost for player in range(players))

    def reason(self) -> str:
        points = zip(self.game.seat_names, self.points, strict=True)
        return f"all prizes are gone; points: {', '.join(f'{name} {n}' for name, n in points)}"


class GoofspielNotes(Notes):
    """Prizes, hands and points: the same for all viewers, since no bid is shown before its end."""

    game: Goofspiel

    def __init__(self, game: Goofspiel, player: int) -> None:
        super().__init__(game, player)
        self.prize = 0
        """The prize of this round; 0 between rounds."""
        self.prizes: tuple[int, ...] = game.deck
        """Prizes that are still to come."""
        self.hands: tuple[tuple[int, ...], ...] = (game.deck,) * game.num_players
        self.bids: tuple[tuple[int, ...], ...] = ((),) * game.num_players
        """Cards that each player has bid, in order."""
        self.points = (0,) * game.num_players
        self.latest: BidsRevealed | None = None
        """The bids of the latest complete round."""

    def update(self, event: Event) -> None:
        match event:
            case PrizeTurnedUp(prize):
                self.prize = prize
                self.prizes = tuple([each for each in self.prizes if each != prize])
            case BidsRevealed(_, bids, _, points):
                self.prize, self.points, self.latest = 0, points, event
                self.hands = without(self.hands, bids)
                pairs = zip(self.bids, bids, strict=True)
                self.bids = tuple([(*before, bid) for before, bid in pairs])


class GoofspielText(GameText):
    """Texts of Goofspiel."""

    game: Goofspiel
    notes_type = GoofspielNotes

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal="Win more points than the others, by higher bids for the prizes.",
            turn=(
                "A prize is turned up. Choose a card of your hand in secret; all bids are "
                "revealed together. The highest bid takes the prize, and all cards that were "
                "bid are gone."
            ),
            end=(
                "After the last prize the most points win. If the highest bids are equal, that "
                "prize goes to no player."
            ),
            example=(
                "The prize is 5. You bid 6, the other player 5: you have five points, but your "
                "highest card is gone, and the prize of 6 is still to come."
            ),
        )

    def rules(self) -> str:
        highest, order = self.game.options.cards, self.game.options.prizes
        return (
            f"Goofspiel, {self.game.num_players} players. Each holds the cards 1 to {highest}. The "
            f"prizes, worth 1 to {highest} points, are turned up one by one in {order} order. For "
            "each prize all players secretly bid one of their cards, and the bids are revealed "
            "together. The highest bid wins the prize; if the highest bid is tied, nobody gets "
            "it. All cards that were bid are out of the game. Most points win.\n"
            "Your action: bid CARD. For example: bid 2"
        )

    def narrate(self, event: Event) -> str:
        names = self.game.seat_names
        match event:
            case PrizeTurnedUp(prize):
                return f"The prize is {prize}."
            case BidsRevealed(prize, bids, winner, points):
                bidding = ", ".join(f"{n} bids {bid}" for n, bid in zip(names, bids, strict=True))
                result = "nobody gets" if winner is None else f"{names[winner]} wins"
                score = ", ".join(f"{n} has {won}" for n, won in zip(names, points, strict=True))
                return f"{bidding}: {result} the prize of {prize}. Score: {score}."
            case _:
                raise TypeError(f"{event!r} is not an event of Goofspiel")


class GoofspielArrays(GameArrays):
    """Observations of Goofspiel as arrays."""

    game: Goofspiel

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players, cards = self.game.num_players, self.game.options.cards
        return {
            "hands": ArraySpec(shape=(players, cards), low=0, high=1),
            "points": ArraySpec(shape=(players,), low=0, high=sum(self.game.deck)),
            "prize": ArraySpec(shape=(cards,), low=0, high=1),
            "prizes_to_come": ArraySpec(shape=(cards,), low=0, high=1),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays; rows are players from the observer on, columns are cards from 1.

        A bid leaves the hand only when it is revealed, for the player who made it too.
        """
        notes: GoofspielNotes = observation.notes
        me, deck = observation.player, self.game.deck
        hands = (*notes.hands[me:], *notes.hands[:me])
        points = bytes((*notes.points[me:], *notes.points[:me]))
        *rows, prize, to_come = [
            bytes(card in hand for card in deck) for hand in (*hands, (notes.prize,), notes.prizes)
        ]
        return self._from_block(bytearray().join((*rows, points, prize, to_come)))


# Table


class GoofspielView(NotesView):
    """The table; a click on an own card bids it. What was bid is public once it is revealed."""

    game: Goofspiel
    notes: GoofspielNotes
    notes_type = GoofspielNotes

    def tabletop(self) -> Tabletop:
        """Return the table now; the viewer's own hand is the last."""
        notes, names = self.notes, self.game.seat_names
        score = tuple(Track(name, notes.points[seat], seat=seat) for seat, name in enumerate(names))
        turned = (Card(str(notes.prize), "accent", "the prize of this round"),)
        prizes = [TileRow(turned if notes.prize else (), "Prize")]
        if notes.prizes:
            coming = tuple(
                Card(str(prize), "muted", "a prize to come", look="small") for prize in notes.prizes
            )
            prizes.append(TileRow(coming, "To come"))
        seats = sorted(range(self.game.num_players), key=lambda seat: seat == self.seat)
        hands = Panel("Hands", tuple(map(self._hand, seats)))
        parts: tuple[Part, ...] = (
            Tracks(score, "Score"),
            *([Panel("Prizes", tuple(prizes))] if notes.prize or notes.prizes else []),
            *self._latest(),
            hands,
        )
        caption = self.game.text.narrate(notes.latest) if notes.latest else ""
        return Tabletop(parts, caption, prompts={"bid": "Click the card that you bid."})

    def _latest(self) -> Iterator[Display]:
        """Yield the bids of the latest round beside each other."""
        latest = self.notes.latest
        if latest is None:
            return
        names = self.game.seat_names
        bids = []
        for seat, bid in enumerate(latest.bids):
            tone: Tone = "good" if seat == latest.winner else "plain"
            bids.append(TileRow((Card(str(bid), tone),), names[seat], seat=seat))
        prize = TileRow((Card(str(latest.prize), "accent", "the prize", look="small"),), "for")
        yield Display("Latest bids", (*bids, prize))

    def _hand(self, seat: int) -> TileRow:
        hand, bids = self.notes.hands[seat], self.notes.bids[seat]
        if seat == self.seat:
            cards = tuple(Card(str(card), picks=(str(Bid(card)),)) for card in hand)
        else:
            cards = tuple(Card(str(card), look="small") for card in hand)
        played = f"played: {' '.join(map(str, bids))}" if bids else ""
        return TileRow(cards, self.game.seat_names[seat], played, seat)


class GoofspielAnalysis(GameAnalysis):
    """Other worlds of Goofspiel."""

    game: Goofspiel

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw again each bid of the other players that is still face down."""
        round_length = 1 + self.game.num_players  # A prize, and one bid per player.
        sealed_from = len(history) // round_length * round_length
        state, steps = self.game.initial_state(), list[Step]()
        for number, step in enumerate(history):
            action = step.action
            if number >= sealed_from and step.player not in (CHANCE, player):
                action = rng.choice(state.legal_actions(step.player))
            state.apply(step.player, action)
            steps.append(Step(step.player, action))
        return steps


# Bots


class Matching:
    """Bot that bids the card of the same number as the prize.

    It is the best answer to random bids if points count (Ross 1971): with n cards it is then ahead
    by (n^2 - 1) / 6 points in the mean, 28 of a full suit.
    """

    def __init__(self, seat: Seat) -> None: ...

    async def act(self, observation: Observation) -> Decision:
        # Each prize was answered by its own card, so this card is still in the hand.
        return Decision(Bid(observation.notes.prize))


class Nearby(MixedBot):
    """Bot that bids its card of the rank of the prize, or one beside it.

    The ranks are those among its own cards and among the prizes that are left.
    """

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        hand, notes = observation.legal_actions.of(Bid), observation.notes
        rank = sum(card < notes.prize for card in notes.prizes)
        weights = {rank: 2.0, rank + 1: 1.0, rank - 1: 1.0}
        chances = {hand[at]: weight for at, weight in weights.items() if 0 <= at < len(hand)}
        total = sum(chances.values())
        return {bid: weight / total for bid, weight in chances.items()}
