"""What one viewer of Leduc hold'em knows: notes, arrays, exact probabilities, strategies, bots.

The declared model of play: the others draw evenly from their legal moves. These do not depend on
their cards, so their moves reveal nothing, and the posterior is that of the unseen copies. This is
also what logically follows from the events.

Strategies are tables: a row of probabilities for each information set. A file has one line per
information set: own card, board card (`-` in the first round), moves so far (rounds parted by `/`),
and the probabilities of fold, call and raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena import Action, ArraySpec, Event, GameArrays, Notes, Observation, Placement, Seat
from arena.agents.agent import MixedBot
from arena.core.errors import UsageError
from games.leduc_poker.rules import (
    ANTE,
    LETTERS,
    MOVES,
    BoardCardDealt,
    HoleCardDealt,
    LeducBetting,
    LeducMoved,
    LeducPoker,
    LeducShowdown,
    card_chances,
    strength,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


COLUMNS = {str(action): column for column, action in enumerate(MOVES.values())}
"""Columns of the array of moves, by the text of the move."""


class LeducNotes(Notes):
    """The table as one viewer sees it. Texts, arrays, bots and views read it.

    Args:
        game: The game that is played.
        player: The seat of the viewer; -1 for a viewer who sees everything.
    """

    game: LeducPoker

    def __init__(self, game: LeducPoker, player: int) -> None:
        super().__init__(game, player)
        self.cards: dict[int, str] = {}
        """The cards that the viewer has seen, by seat."""
        self.board = ""
        """The board card; empty before it is dealt."""
        self.betting = LeducBetting.start(game.options)
        self.is_shown = False
        """True if cards were shown at the end."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        match event:
            case HoleCardDealt(player, card):
                self.cards[player] = card
            case BoardCardDealt(card):
                self.board = card
                self.betting = self.betting.next_round()
            case LeducMoved(move=move):
                self.betting = self.betting.after(move[0])
            case LeducShowdown(cards):
                self.cards |= {seat: card for seat, card in enumerate(cards) if card}
                self.is_shown = True

    @property
    def own(self) -> str:
        """The viewer's own card; empty before the deal."""
        return self.cards.get(self.player, "")


class LeducArrays(GameArrays):
    """Observations of Leduc hold'em as arrays."""

    game: LeducPoker

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players, ranks = self.game.num_players, len(self.game.deck)
        # All check but the last player, who raises; after each raise the others answer, and the
        # last of them may raise again: check, raise, raise, call.
        most_moves = (players - 1) * (self.game.options.raises + 1) + 1
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "cards": ArraySpec(shape=(players, ranks), low=0, high=1),
            "board": ArraySpec(shape=(ranks,), low=0, high=1),
            "moves": ArraySpec(shape=(2, most_moves, len(MOVES)), low=0, high=1),
            "chips": ArraySpec(shape=(players,), low=0, high=self.game.most_chips),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return one-hot rows: seat, known cards by seat, board, moves by round; and the chips."""
        deck, at = self.game.deck, self._offsets
        block = bytearray(self._seat_blocks[observation.player])
        cards, board, chips = at["cards"], at["board"], at["chips"]
        # The moves of the first round, those of the second, then the chips.
        place, second = at["moves"], (at["moves"] + chips) // 2
        block[chips:] = bytes((ANTE,)) * self.game.num_players
        for event in observation.events:
            if isinstance(event, LeducMoved):
                block[place + COLUMNS[event.move]] = 1
                place += len(MOVES)
                block[chips + event.player] += event.chips
            # Only cards that the observer has seen; the others stay zeros.
            elif isinstance(event, HoleCardDealt):
                block[cards + event.player * len(deck) + deck.index(event.card)] = 1
            elif isinstance(event, BoardCardDealt):
                block[board + deck.index(event.card)] = 1
                place = second
            elif isinstance(event, LeducShowdown):
                for seat, card in enumerate(event.cards):
                    if card:
                        block[cards + seat * len(deck) + deck.index(card)] = 1
        return self._from_block(block)


@dataclass(frozen=True, slots=True)
class ShowdownChances:
    """Probabilities of the results if the cards are shown at the end; they add up to 1."""

    win: float
    tie: float

    @property
    def lose(self) -> float:
        """Probability that another hand is better."""
        return max(0.0, 1 - self.win - self.tie)

    @property
    def share(self) -> float:
        """Expected share of the pot: a tie gives half of it, as there are two cards of a rank."""
        return self.win + self.tie / 2


def showdown_chances(notes: LeducNotes) -> ShowdownChances:
    """Return the chances of the hand of a viewer, whose card has been dealt, at a showdown."""
    own, win, tie = notes.own, 0.0, 0.0
    rivals = [seat for seat in notes.betting.left if seat != notes.player]
    for cards, chance in joint_hands(notes, rivals):
        # Before the board card, all of its possible values are summed over.
        seen = (own, *cards)
        boards = {notes.board: 1.0} if notes.board else card_chances(seen, notes.game.deck)
        for board, weight in boards.items():
            # Joint probability of the other cards and the board card.
            margin = strength(own, board) - max(strength(card, board) for card in cards)
            win += chance * weight * (margin > 0)
            tie += chance * weight * (margin == 0)
    return ShowdownChances(win, tie)


class LeducKnowledge:
    """Knowledge of one seat about the cards of the others.

    Example:
        >>> from games.leduc_poker.rules import LeducPoker
        >>> from games.leduc_poker.rules import HoleCardDealt
        >>> knowledge = LeducKnowledge(LeducPoker(), 0)
        >>> knowledge.update(HoleCardDealt(0, "King"))
        >>> knowledge.probabilities()
        {'Jack': 0.4, 'Queen': 0.4, 'King': 0.2}
        >>> knowledge.world_count()
        3
    """

    def __init__(self, game: LeducPoker, player: int) -> None:
        self.notes = LeducNotes(game, player)
        """The facts that it rests on."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self.notes.update(event)

    @property
    def _others(self) -> list[int]:
        seats = range(self.notes.game.num_players)
        return [seat for seat in seats if seat != self.notes.player]

    def probabilities(self, other: int | None = None) -> dict[str, float]:
        """Return the probability of each card of another player; of two it needs no number."""
        return hand_probabilities(self.notes, other)

    def placement(self) -> Placement:
        """Return the probabilities of the others' cards as a table, a row for each of them."""
        game, others = self.notes.game, self._others
        rows = []
        for other in others:
            chances = self.probabilities(other)
            rows.append(tuple(chances.get(card, 0.0) for card in game.deck))
        things = tuple(f"card of {game.seat_names[other]}" for other in others)
        return Placement(things, ("hidden card",) * len(rows), game.deck, tuple(rows))

    def entropy(self) -> float:
        """Return the uncertainty about the cards of the other players, in bits."""
        # H = -sum p log2 p; cards of probability 0 are not listed.
        hands = joint_hands(self.notes, self._others)
        return math.fsum(-p * math.log2(p) for _, p in hands)

    def world_count(self) -> int:
        """Return the number of cards that the others may have; suits do not count."""
        return sum(1 for _ in joint_hands(self.notes, self._others))


# Strategies


LeducKey = tuple[str, str, str]
"""An information set: own card, board card or "", moves."""
Strategy = Mapping[LeducKey, Mapping[str, float]]
"""Probability of each legal move, by its letter."""

BUNDLED = Path(__file__).with_name("equilibrium.txt")
"""The strategy that `tests/support/leduc_solver.py` has written."""


def read_strategy(path: Path) -> Strategy:
    """Read a strategy. Its rows are divided by their sums, because the file is rounded."""
    strategy = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        card, board, moves, *row = line.split()
        numbers = dict(zip(MOVES, map(float, row), strict=True))
        total = sum(numbers.values())
        # Empty fields are written as "-", so that each line splits into six words.
        key = (card, board.replace("-", ""), moves if moves != "-" else "")
        strategy[key] = {move: n / total for move, n in numbers.items() if n}
    return strategy


@cache
def equilibrium() -> Strategy:
    """Return the bundled approximate equilibrium."""
    return read_strategy(BUNDLED)


@cache
def move_values() -> Mapping[LeducKey, Mapping[str, float]]:
    """Return Q(I, a) of each move where there is a choice: the expected chips of its player.

    The other player follows the bundled equilibrium, and the later moves are best responses to it.
    All values are 0 where the equilibrium never leads.
    """
    from arena.evaluation.exact.exploitability import policy_array
    from arena.evaluation.exact.game_tree import game_tree

    game, values = LeducPoker(), dict[LeducKey, dict[str, float]]()
    tree = game_tree(game)
    policy = policy_array(game, [partial(probabilities, equilibrium())] * 2)
    for player in range(2):
        found = tree.action_values(tree.best_response(policy, player))
        for first, situation in zip(tree.first_pairs, tree.situations, strict=True):
            observation = situation.observation
            if observation.player == player:
                assert isinstance(observation.notes, LeducNotes)
                moves = enumerate(observation.legal_actions, start=first)
                row = {LETTERS[action]: float(found[pair]) for pair, action in moves}
                values[own_key(observation.notes)] = row
    return values


def own_key(notes: LeducNotes) -> LeducKey:
    """Return the information set of the viewer."""
    return notes.own, notes.board, str(notes.betting)


def probabilities(strategy: Strategy, observation: Observation) -> dict[Action, float]:
    """Return the probability of each legal action of the observer under a strategy."""
    notes = observation.notes
    assert isinstance(notes, LeducNotes)
    return {MOVES[move]: p for move, p in strategy[own_key(notes)].items()}


def hand_probabilities(notes: LeducNotes, other: int | None = None) -> dict[str, float]:
    """Return the probability of each card of another player, given all that the viewer saw.

    It is the share of the card among the copies that the viewer has not seen.

    Args:
        notes: Facts of the viewer.
        other: The seat of the other player; None: that of the other one of two.
    """
    other = 1 - notes.player if other is None else other
    # After a showdown nothing is left to infer.
    if other in notes.cards:
        return {notes.cards[other]: 1.0}
    return dict(card_chances(_seen(notes), notes.game.deck))


def joint_hands(notes: LeducNotes, seats: Sequence[int]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the cards that some other players may have, with their probabilities.

    Args:
        notes: Facts of the viewer.
        seats: The other players.
    """

    def draw(cards: tuple[str, ...], chance: float) -> Iterator[tuple[tuple[str, ...], float]]:
        if len(cards) == len(seats):
            yield cards, chance
            return
        known = notes.cards.get(seats[len(cards)])
        # The cards drawn so far are not in the deck any more; those that were shown never are.
        drawn = (c for seat, c in zip(seats, cards, strict=False) if seat not in notes.cards)
        chances = {known: 1.0} if known else card_chances((*seen, *drawn), notes.game.deck)
        for card, probability in chances.items():
            yield from draw((*cards, card), chance * probability)

    seen = _seen(notes)
    yield from draw((), 1.0)


def _seen(notes: LeducNotes) -> tuple[str, ...]:
    """Return the cards that the viewer has seen."""
    return (*notes.cards.values(), *filter(None, (notes.board,)))


# Bots


class Odds(MixedBot):
    """Bot that compares its chance against a random hand with the price of a call.

    It raises if it expects more than `RAISING` of the pot, folds if a call costs more than its
    expected share, and never bluffs.
    """

    RAISING = 0.6

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        notes = observation.notes
        assert isinstance(notes, LeducNotes)
        betting, share = notes.betting, showdown_chances(notes).share
        # The strength of the hand alone decides: the bot does not read the other player.
        if share > self.RAISING and "r" in betting.legal:
            return {MOVES["r"]: 1.0}
        # A call pays if share * (pot + price) > price.
        pays = share * (betting.pot + betting.price) > betting.price
        return {MOVES["c" if pays or not betting.price else "f"]: 1.0}


class Equilibrium(MixedBot):
    """Bot that plays the bundled approximate Nash equilibrium, computed by CFR+.

    Whatever the other player does, it loses on average at most its exploitability more than the
    value of the game; `tests/games/test_leduc_poker.py` states the figure.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        assert isinstance(seat.game, LeducPoker)
        if not seat.game.is_solved:
            raise UsageError(
                "bot:equilibrium knows leduc_poker with its default options only; use bot:odds"
            )

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return probabilities(equilibrium(), observation)
