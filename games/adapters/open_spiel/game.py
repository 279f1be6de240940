"""OpenSpiel's games as games of arena, made on request: options, moves, texts and arrays."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

from pydantic import ConfigDict

from arena import CHANCE, Action, ReturnScale
from arena.core.action import normalise
from arena.core.errors import UsageError
from arena.core.game import Game, GameOptions
from arena.plugins.catalog import FamilyGame
from games.adapters.library_game import (
    NO_ARRAY,
    LibraryFamily,
    LibraryGame,
    LibraryMove,
    LibraryObserved,
    LibraryText,
    clean_lines,
    one_line_label,
    options_class,
)
from games.adapters.open_spiel import library

MOST_NAMED = 30_000
"""Moves beyond which their texts are not made in advance."""

SUITS = str.maketrans({"♣": "C", "♦": "D", "♥": "H", "♠": "S"})
"""Signs that the comparison of texts ignores, as letters."""

FROM_TO = re.compile(r"([a-z]\d{1,2})(x?)([a-z]\d{1,2})(\*?)")
"""Two squares of a move without a blank between them; x or * marks that a piece is taken."""

SECRET_CHANCE = frozenset(["python_hangman"])
"""Games that OpenSpiel calls perfect, although chance draws something that is hidden."""


class OpenSpielOptions(GameOptions):
    """Parameters of the library. Some texts consist of digits: `nim:pile_sizes=5`."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class OpenSpielGame(LibraryGame):
    """A game of OpenSpiel. Its options are the parameters of the library."""

    Text = "games.adapters.open_spiel.game:OpenSpielText"
    Analysis = "games.adapters.open_spiel.state:OpenSpielAnalysis"
    View = "games.adapters.open_spiel.board:OpenSpielView"
    Position = "games.adapters.open_spiel.state:OpenSpielState"
    # Tree search is a hundred times slower, and does not play every game.
    default_bots = ("random", "random")

    kind: ClassVar[Any]
    """The `pyspiel.GameType` under which the game is registered."""

    facts = (*LibraryGame.facts, "is_sampled", "return_scale", "turn_bound")
    default_max_turns = None

    @cached_property
    def turn_bound(self) -> int:
        return int(self.spiel.max_game_length())

    def _load(self) -> None:
        self.spiel = library.load(self.short_name, self.options.model_dump())
        # The type of the loaded game: a parameter may hide information or add chance.
        loaded, types = self.spiel.get_type(), library.pyspiel().GameType
        fault = fault_of(loaded)
        if fault:
            raise UsageError(f"{self.name}: {fault}")
        library.check_start(self.short_name, self.spiel)
        self.hides = (
            loaded.information == types.Information.IMPERFECT_INFORMATION
            or self.short_name in SECRET_CHANCE
        )
        self.is_sampled = loaded.chance_mode == types.ChanceMode.SAMPLED_STOCHASTIC
        self.has_rewards = loaded.reward_model == types.RewardModel.REWARDS
        self.players = int(self.spiel.num_players())
        self._choose_views(loaded)

    @property
    def short_name(self) -> str:
        """The name in OpenSpiel."""
        return self.name.partition("/")[2]

    @cached_property
    def return_scale(self) -> ReturnScale:
        low, high = self.spiel.min_utility(), self.spiel.max_utility()
        # A game that is cut off counts with its returns so far, which begin at 0.
        ends = [end if math.isfinite(end) else None for end in (min(low, 0.0), max(high, 0.0))]
        utility = library.pyspiel().GameType.Utility
        total = 0.0 if self.spiel.get_type().utility == utility.ZERO_SUM else None
        if low < high:
            return ReturnScale("return", "", ends[0], ends[1], total)
        return ReturnScale(total=total)

    def _choose_views(self, loaded: Any) -> None:
        """Choose the text and the tensor that seats get.

        With hidden information it is the information state, which contains the seat's whole past;
        a game without one shows its observations one after the other.
        """
        past = loaded.provides_information_state_string
        self.texts_add_up = self.hides and not past
        use_past = past and (self.hides or not loaded.provides_observation_string)
        has_text = past or loaded.provides_observation_string
        self._text_method = "information_state_string" if use_past else "observation_string"
        if not has_text:
            # Without hidden information, the whole position may be shown.
            self._text_method = "" if self.hides else "to_string"
        past_array = loaded.provides_information_state_tensor
        use_past_array = past_array and (self.hides or not loaded.provides_observation_tensor)
        self._array_method = "information_state_tensor" if use_past_array else "observation_tensor"
        self.array_size = 0
        if past_array or loaded.provides_observation_tensor:
            size = getattr(self.spiel, f"{self._array_method}_size")
            self.array_size = int(size())

    def text_of(self, spiel: Any, player: int) -> str:
        """Return what OpenSpiel shows to a seat at a position."""
        if not self._text_method:
            return ""
        method = getattr(spiel, self._text_method)
        text = method() if self._text_method == "to_string" else method(player)
        return clean_lines(_with_letters(text))

    def observed(self, spiel: Any, player: int, text: str, legal: Sequence[int]) -> LibraryObserved:
        """Return the event that shows a position to a seat."""
        labels = tuple(self.label(spiel, player, n) for n in legal) if self.is_positional else ()
        return LibraryObserved(
            player, text, labels, self._array_of(spiel, player), public=not self.hides
        )

    def _array_of(self, spiel: Any, player: int) -> bytes:
        if not self.array_size:
            return NO_ARRAY
        try:
            values = getattr(spiel, self._array_method)(player)
        except library.pyspiel().SpielError:  # Some games have none at the end.
            return NO_ARRAY
        # Faster than an array of NumPy for the few values of a small game.
        return array("f", values).tobytes()

    def label(self, spiel: Any, player: int, number: int) -> str:
        """Return OpenSpiel's text of a move or of a result of chance at a position."""
        text = one_line_label(_with_letters(spiel.action_to_string(player, number)))
        move = FROM_TO.fullmatch(text)
        if move is None:
            # The comparison of texts ignores signs; moves off the board have such texts, too.
            return f"{text[:-1]} x" if text.endswith("*") else text
        return f"{move[1]}{' x ' if move[2] or move[4] else '-'}{move[3]}"

    def event_text(self, spiel: Any, player: int, number: int) -> str:
        """Return the text of a move, or of a result of chance, in events."""
        if player == CHANCE or self.is_positional:
            return self.label(spiel, player, number)
        return self.moves[player][number].text

    @cached_property
    def moves(self) -> tuple[tuple[LibraryMove, ...], ...]:
        """The moves of each seat by their numbers in OpenSpiel."""
        count = self.spiel.num_distinct_actions()
        rows = self._move_texts(count)
        if rows is None:
            numbered = tuple(LibraryMove(number, f"move {number}") for number in range(count))
            return (numbered,) * self.num_players
        return tuple(tuple(map(LibraryMove, range(count), row)) for row in rows)

    @cached_property
    def is_positional(self) -> bool:
        """True if moves are written by number, with OpenSpiel's text beside them."""
        return str(self.moves[0][0]) == "move 0"

    def _move_texts(self, count: int) -> list[list[str]] | None:
        """Return the texts of all moves by seat; None if they do not name one move each."""
        if self.short_name in library.POSITIONAL | library.WRAPPERS or count > MOST_NAMED:
            return None
        if self.is_sampled:
            return None
        state, rows = self.spiel.new_initial_state(), list[list[str]]()
        owners = dict[str, tuple[int, str]]()
        with library.without_messages():
            for player in range(self.num_players):
                rows.append([self._static_text(state, player, n) for n in range(count)])
        for row in rows:
            for number, text in enumerate(row):
                key = normalise(text)
                # As the parser compares: two texts must differ in more than case and punctuation.
                if not key or owners.setdefault(key, (number, text)) != (number, text):
                    return None
        return rows

    def _static_text(self, state: Any, player: int, number: int) -> str:
        try:
            return self.label(state, player, number)
        except (library.pyspiel().SpielError, LookupError, ValueError):
            return f"move {number}"  # Another seat's move, for example.

    def _all_actions(self) -> Iterable[Action]:
        # Seats may have other texts for the same move: "x(0,0)" and "o(0,0)".
        return dict.fromkeys(chain.from_iterable(self.moves))

    @cached_property
    def openings(self) -> tuple[LibraryObserved | None, ...]:
        if self.is_sampled:
            return super().openings
        spiel = self.spiel.new_initial_state()
        if spiel.is_chance_node():
            return super().openings
        seats = range(self.num_players)
        return tuple(
            self.observed(spiel, seat, self.text_of(spiel, seat), spiel.legal_actions(seat))
            for seat in seats
        )

    def seeded(self, seed: int) -> Any:
        """Return a fresh first position of a game that draws by itself, from this seed."""
        names = [n for n in library.SEED_PARAMETERS if n in self.kind.parameter_specification]
        options = {**self.options.model_dump(), names[0]: seed}
        return library.load(self.short_name, options).new_initial_state()


class OpenSpielText(LibraryText):
    """Rules of a game of OpenSpiel."""

    game: OpenSpielGame

    def about(self) -> str:
        scale = self.game.return_scale.range_text or "unknown"
        return f" Returns: {scale}. Your view of the game is OpenSpiel's own text."


def _with_letters(text: str) -> str:
    """Return a text with letters for the signs of suits."""
    return text if text.isascii() else text.translate(SUITS)


def fault_of(kind: Any) -> str:
    """Return why games of this `GameType` cannot be played here; empty if they can."""
    types = library.pyspiel().GameType
    if kind.short_name in library.FAULTY:
        return library.FAULTY[kind.short_name]
    if kind.dynamics == types.Dynamics.MEAN_FIELD:
        return "a mean-field game has a population instead of players; it cannot be seated"
    if kind.action_structs_only:
        return "its moves are structures without a list of legal ones; it cannot be played"
    sampled = kind.chance_mode == types.ChanceMode.SAMPLED_STOCHASTIC
    if sampled and not set(library.SEED_PARAMETERS) & set(kind.parameter_specification):
        return "it draws its own chance and takes no seed, so it cannot be replayed"
    return ""


class OpenSpielFamily(LibraryFamily):
    """All games that OpenSpiel registers, by their short names."""

    name, library = "open_spiel", "OpenSpiel"
    boards = ("breakthrough", "checkers", "chess", "connect_four", "go", "hex", "othello")

    def known(self) -> Mapping[str, Any]:
        return library.game_types()

    def make(self, name: str) -> type[Game]:
        kind = self.known()[name]
        defaults = library.option_defaults(kind)
        options = options_class(self.library, name, defaults, OpenSpielOptions)
        return self.new_class(OpenSpielGame, name, kind.long_name, kind=kind, Options=options)

    def listed(self, name: str) -> FamilyGame:
        kind, types = self.known()[name], library.pyspiel().GameType
        low, high = kind.min_num_players, kind.max_num_players
        hides = kind.information == types.Information.IMPERFECT_INFORMATION
        features = []
        if kind.provides_information_state_tensor or kind.provides_observation_tensor:
            features.append("arrays")
        if hides and kind.chance_mode != types.ChanceMode.SAMPLED_STOCHASTIC:
            features.append("leak test")
        if kind.dynamics == types.Dynamics.SIMULTANEOUS:
            features.append("simultaneous")
        return FamilyGame(
            name=f"{self.name}/{name}",
            summary=kind.long_name,
            players=str(low) if low == high else f"{low}-{high}",
            information="imperfect" if hides else "perfect",
            features=tuple(features),
            # The type of a game made from another one says nothing before that one is named.
            problem=fault_of(kind) if kind.default_loadable else "it needs parameters",
        )


OPEN_SPIEL = OpenSpielFamily()
