"""What one player knows of the hidden roles: the exact posterior, notes and words for both.

The posterior has the assignments of roles that are consistent with the player's events. The model
is logical. All deals are equally likely, and a move that every role could have made proves nothing.
So all consistent assignments are equally likely, and the entropy is the logarithm of their number.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena import (
    Action,
    ArraySpec,
    Event,
    GameArrays,
    GameText,
    Notes,
    Observation,
    Placement,
    Say,
    Spoken,
    TextLevel,
    Tile,
    normalise,
)
from arena.core.action_set import MOST_STATEMENTS
from arena.core.text import json_object, per_cent
from games.hidden_roles.game import (
    PASS,
    ClaimSide,
    HiddenRolesGame,
    RoleDealt,
    RolesRevealed,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Worlds = NDArray[np.int8]
    """One row per seat, one column per assignment: the index of the role in `distinct_roles`."""


@lru_cache(maxsize=8)
def role_worlds(roles: tuple[str, ...]) -> Worlds:
    """Return all different assignments of these roles to seats: at most 151,200 columns, read-only.

    With n seats and role r dealt c(r) times there are n! / prod c(r)! of them.
    """
    import numpy as np  # Imported late: listing the games must stay fast.

    counts = Counter(roles)
    names = list(counts)
    # The commonest role comes last: it takes all seats that are left, at no cost.
    order = sorted(names, key=lambda name: counts[name])
    worlds = np.full((1, len(roles)), -1, np.int8)
    for name in order[:-1]:
        parts = []
        # A role that is dealt c times takes each set of c free seats.
        for seats in map(list, combinations(range(len(roles)), counts[name])):
            chosen = worlds[(worlds[:, seats] == -1).all(axis=1)]
            chosen[:, seats] = names.index(name)
            parts.append(chosen)
        worlds = np.concatenate(parts)
    worlds[worlds == -1] = names.index(order[-1])
    # Contiguous by seat, because all questions are about a few seats in all assignments.
    worlds = np.ascontiguousarray(worlds.T)
    worlds.setflags(write=False)
    return worlds


@dataclass(frozen=True, slots=True)
class RoleCount:
    """A fact: from `least` to `most` of some seats have one of some roles."""

    seats: tuple[int, ...]
    roles: frozenset[str]
    least: int
    most: int


Facts = tuple[RoleCount, ...]


@lru_cache(maxsize=256)
def consistent_worlds(roles: tuple[str, ...], facts: Facts) -> Worlds:
    """Return the assignments for which all facts hold, read-only.

    Kept for later calls: the knowledge of a player is computed again for each new reader.
    """
    import numpy as np  # Imported late: listing the games must stay fast.

    if not facts:
        return role_worlds(roles)
    # One fact more than an earlier call: the facts of a player only grow.
    worlds, fact = consistent_worlds(roles, facts[:-1]), facts[-1]
    found = members(roles, fact.roles)[worlds[list(fact.seats)]]
    counts = found.sum(axis=0, dtype=np.int8)
    holds = (counts >= fact.least) & (counts <= fact.most)
    if holds.all():
        return worlds
    worlds = np.compress(holds, worlds, axis=1)
    worlds.setflags(write=False)
    return worlds


@lru_cache(maxsize=256)
def role_shares(roles: tuple[str, ...], facts: Facts, wanted: frozenset[str]) -> tuple[float, ...]:
    """Return for each seat the share of the consistent assignments in which its role is wanted."""
    import numpy as np  # Imported late: listing the games must stay fast.

    worlds, table = consistent_worlds(roles, facts), members(roles, wanted)
    return tuple(int(np.count_nonzero(table[row])) / worlds.shape[1] for row in worlds)


@lru_cache(maxsize=256)
def role_sets(
    roles: tuple[str, ...], facts: Facts, wanted: frozenset[str]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the possible sets of the seats with a wanted role, and the probability of each."""
    import numpy as np  # Imported late: listing the games must stay fast.

    found = members(roles, wanted)[consistent_worlds(roles, facts)]
    # One bit per seat makes a set a number, which is faster to sort than a row.
    codes = (1 << np.arange(len(found))) @ found
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    sets, probabilities = found[:, first].T, counts / len(codes)
    sets.setflags(write=False)
    probabilities.setflags(write=False)
    return sets, probabilities


def members(roles: tuple[str, ...], wanted: Collection[str]) -> NDArray[np.bool_]:
    """Return for each distinct role whether it is wanted: a table to look up assignments in."""
    import numpy as np  # Imported late: listing the games must stay fast.

    return np.array([role in wanted for role in dict.fromkeys(roles)])


class RolePosterior:
    """Knowledge of one player about the roles; a game subclasses it to read its own events."""

    def __init__(self, game: HiddenRolesGame, player: int) -> None:
        self.game = game
        self.player = player
        self.facts: Facts = ()

    @property
    def worlds(self) -> Worlds:
        """The consistent assignments, all equally likely: shape (seats, worlds)."""
        return consistent_worlds(self.game.role_list, self.facts)

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case RoleDealt(seat, role):
                self.add((seat,), (role,), 1)
            case RolesRevealed(roles):
                for seat, role in enumerate(roles):
                    self.reveal(seat, role)

    def reveal(self, seat: int, role: str) -> None:
        """Add the role of a seat."""
        self.add((seat,), (role,), 1)

    def add(
        self, seats: Sequence[int], roles: Collection[str], least: int, most: int | None = None
    ) -> None:
        """Add that from `least` to `most` of the seats (None: all) have one of the roles."""
        # Normal form: equal facts make equal keys of the caches.
        fact = RoleCount(
            tuple(seats), frozenset(roles), least, len(seats) if most is None else most
        )
        # A fact that is always true, or known already, would only make the key longer.
        if (fact.least > 0 or fact.most < len(seats)) and fact not in self.facts:
            self.facts += (fact,)

    def entropy(self) -> float:
        """Return the uncertainty about the roles in bits: log2 of the number of assignments."""
        return math.log2(self.world_count())

    def world_count(self) -> int:
        """Return the number of consistent assignments."""
        return int(self.worlds.shape[1])

    def probabilities(self, roles: Collection[str]) -> tuple[float, ...]:
        """Return for each seat the probability that it has one of these roles."""
        return role_shares(self.game.role_list, self.facts, frozenset(roles))

    def teams(self, roles: Collection[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return the possible sets of the seats that have one of these roles.

        Returns:
            The different sets, shape (sets, seats), and the probability of each, shape (sets,).
        """
        return role_sets(self.game.role_list, self.facts, frozenset(roles))

    def placement(self) -> Placement:
        """Return the probability of each role of each seat; a role that is shown is certain."""
        names, roles = self.game.seat_names, self.game.distinct_roles
        columns = [self.probabilities((role,)) for role in roles]
        rows = tuple(zip(*columns, strict=True))
        return Placement(names, ("players",) * len(names), roles, rows)

    def sample(self, rng: random.Random) -> tuple[str, ...]:
        """Draw one consistent assignment; all are equally likely."""
        worlds = self.worlds
        column = worlds[:, rng.randrange(worlds.shape[1])]
        return tuple(self.game.distinct_roles[role] for role in column)


class RoleNotes(Notes):
    """The own role and the exact posterior; a game subclasses it to note its own events."""

    def __init__(self, game: HiddenRolesGame, player: int, posterior: RolePosterior) -> None:
        super().__init__(game, player)
        self.role = ""
        self.is_over = False
        self.stated: dict[int, Sequence[Action]] = {}
        """The latest statements of each seat to all."""
        self._posterior = posterior
        # The posterior is computed only for texts that show it.
        self._unread: list[Event] = []

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self._unread.append(event)
        match event:
            case RoleDealt(_, role):
                self.role = role
            case RolesRevealed():
                self.is_over = True
            case Spoken(player, text, None):
                self.stated[player] = self.game.actions.attached(text)

    @property
    def posterior(self) -> RolePosterior:
        """The exact posterior after all events so far."""
        for event in self._unread:
            self._posterior.update(event)
        self._unread.clear()
        return self._posterior


class RoleArrays(GameArrays):
    """Observations as arrays; with statements, `stated` has a row of the latest ones per seat."""

    @property
    def _stated(self) -> Mapping[str, ArraySpec]:
        shape = self.game.num_players, len(self.game.actions.statements)
        return {"stated": ArraySpec(shape, low=0, high=1)} if shape[1] else {}

    def _fill_stated(self, arrays: Mapping[str, NDArray[Any]], notes: RoleNotes) -> None:
        for seat, statements in notes.stated.items():
            for statement in statements:
                arrays["stated"][seat, self.game.actions.statements.index(statement)] = 1


class RoleView:
    """Table of a game of hidden roles; a game subclasses it to draw its own events.

    It reads what is public in the notes only: their role and posterior are those of one player.
    """

    def __init__(self, game: HiddenRolesGame, seat: int | None, notes: RoleNotes) -> None:
        self.game, self._seat, self._notes = game, seat, notes
        self._roles: dict[int, Tile] = {}
        """Roles that the viewer knows, by seat."""
        self._hints: dict[int, Tile] = {}
        """Parts of a role that the viewer knows, such as the side, by seat."""

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._notes.update(event)
        match event:
            case RoleDealt(player, role):
                self._roles[player] = self._role_tile(role)
            case RolesRevealed(roles):
                self._roles = dict(enumerate(map(self._role_tile, roles)))

    def _role_tile(self, role: str) -> Tile:
        return Tile(role, "bad" if self.game.team_of(role) else "good")


def percentages(
    game: HiddenRolesGame, probabilities: Sequence[float], player: int | None = None
) -> str:
    """Return a probability per seat, the seat `player` omitted: `Player 1 40 %, Player 2 0 %`."""
    return ", ".join(
        f"{name} {per_cent(probability)}"
        for seat, (name, probability) in enumerate(zip(game.seat_names, probabilities, strict=True))
        if seat != player
    )


class HiddenRolesText(GameText):
    """Texts that games of hidden roles share."""

    game: HiddenRolesGame

    def narrate(self, event: Event) -> str:
        """Return one of the events that these games share as a sentence."""
        if not isinstance(event, RolesRevealed):
            raise TypeError(f"{event!r} is not an event of {self.game.name}")
        pairs = zip(self.game.seat_names, event.roles, strict=True)
        return f"The roles were: {', '.join(f'{name} {role}' for name, role in pairs)}."

    def statement_rules(self) -> Iterator[str]:
        """Yield the grammar of statements, with the option `talk=statements`."""
        if not self.game.actions.statements:
            return
        sides = "|".join(self.game.sides)
        check = f" | claim checked Player NUMBER {sides}" if self.game.seers else ""
        promised = (m.template or str(m) for moves in self.game.promised for m in moves)
        moves = dict.fromkeys(each.replace("{self.seat}", "NUMBER") for each in promised)
        yield (
            f"Statements: claim I am ROLE | claim Player NUMBER {sides}{check} | suspect Player "
            f"NUMBER | trust Player NUMBER | promise {'|'.join(moves)}."
        )
        yield (
            f"When you may speak, make one as your action, or put up to {MOST_STATEMENTS} into "
            f"square brackets beside your words: say [claim Player 1 {self.game.sides[1]}] "
            "[suspect Player 2] TEXT. They may be false."
        )

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the legal actions; the rules list the statements."""
        legal = observation.legal_actions
        if legal.of(ClaimSide):
            forms = (PASS, "STATEMENT", Say.notation())
            return [f"Your actions: {' | '.join(map(str, forms))}"]
        return super().situation(observation, level)

    def belief_question(self, observation: Observation) -> str | None:
        """Return the question to a player of the majority; None for others."""
        game = self.game
        dealt = next((e.role for e in observation.events if isinstance(e, RoleDealt)), None)
        if dealt is None or game.team_of(dealt):
            return None
        example = ", ".join(f'"{name}": 0.3' for name in game.seat_names[:2])
        return (
            "Before you go on: what do you believe? This is not a move; name no action. Answer "
            "with one JSON object: the probability that each other player is one of "
            f"{game.team_names[1]}, for example {{{example}}}."
        )

    def read_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        """Return the stated probability of each seat to be of the minority."""
        names = {normalise(name): str(seat) for seat, name in enumerate(self.game.seat_names)}
        stated = {
            names[normalise(name)]: value
            for name, value in json_object(answer).items()
            if normalise(name) in names and isinstance(value, int | float) and 0 <= value <= 1
        }
        return {"minority": {**stated}} if stated else {"failure": "unparsable"}

    def synonyms(self) -> Mapping[str, str]:
        """Return other words for the players; a game adds those for its actions."""
        names = self.game.seat_names
        return {f"{word}{seat}": name for word in ("seat ", "P") for seat, name in enumerate(names)}
