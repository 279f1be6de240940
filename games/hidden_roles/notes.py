"""Everything that one player knows of the hidden roles, and its words and table.

The exact posterior has the assignments of roles that are consistent with the player's events. The
model is logical. All deals are equally likely, and a move that every role could have made proves
nothing. So all consistent assignments are equally likely, and the entropy is the logarithm of their
number.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import (
    Event,
    GameText,
    Notes,
    Observation,
    Placement,
    Player,
    Say,
    Spoken,
    TextLevel,
    Tile,
)
from arena.core.action_set import MOST_STATEMENTS
from arena.core.observation import NotesView
from arena.core.text import per_cent
from games.hidden_roles.rules import (
    PASS,
    ClaimSide,
    HiddenRolesGame,
    RoleDealt,
    RolesRevealed,
)

Worlds = NDArray[np.int8]
"""One row per seat, one column per assignment: the index of the role in `distinct_roles`."""


@lru_cache(maxsize=8)
def role_worlds(roles: tuple[str, ...]) -> Worlds:
    """Return all different assignments of these roles to seats: at most 151,200 columns, read-only.

    With n seats and role r dealt c(r) times there are n! / prod c(r)! of them.
    """
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
    worlds, table = consistent_worlds(roles, facts), members(roles, wanted)
    return tuple(int(np.count_nonzero(table[row])) / worlds.shape[1] for row in worlds)


@lru_cache(maxsize=256)
def role_sets(
    roles: tuple[str, ...], facts: Facts, wanted: frozenset[str]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the possible sets of the seats with a wanted role, and the probability of each."""
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
    return np.array([role in wanted for role in dict.fromkeys(roles)])


class RoleNotes(Notes):
    """Everything that one player knows; a game subclasses it to note its own events.

    The posterior follows from `facts`; it is computed only for readers who ask for it.
    """

    game: HiddenRolesGame

    def __init__(self, game: HiddenRolesGame, player: int) -> None:
        super().__init__(game, player)
        self.facts: Facts = ()
        self.dealt: dict[int, str] = {}
        """Roles that were shown to this player, by seat; at the end those of all seats."""
        self.spoken: list[Spoken] = []
        """Speeches since the game last emptied this list."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case RoleDealt(seat, role):
                self.dealt[seat] = role
                self.add((seat,), (role,), 1)
            case RolesRevealed(roles):
                self.dealt = dict(enumerate(roles))
                for seat, role in self.dealt.items():
                    self.add((seat,), (role,), 1)
            case Spoken():
                self.spoken.append(event)

    @property
    def role(self) -> str:
        """The own role; empty before the deal and for a spectator."""
        return self.dealt.get(self.player, "")

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

    @property
    def worlds(self) -> Worlds:
        """The consistent assignments, all equally likely: shape (seats, worlds)."""
        return consistent_worlds(self.game.role_list, self.facts)

    def entropy(self) -> float:
        """Return the uncertainty about the roles in bits: log2 of the number of assignments."""
        return math.log2(self.world_count())

    def world_count(self) -> int:
        """Return the number of consistent assignments."""
        return int(self.worlds.shape[1])

    def probabilities(self, roles: Collection[str]) -> tuple[float, ...]:
        """Return for each seat the probability that it has one of these roles."""
        return role_shares(self.game.role_list, self.facts, frozenset(roles))

    def minority_sets(self) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return the possible sets of the seats of the minority.

        Returns:
            The different sets, shape (sets, seats), and the probability of each, shape (sets,).
        """
        return role_sets(self.game.role_list, self.facts, self.game.minority)

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


class RoleView(NotesView):
    """Table of a game of hidden roles, made from notes; a game subclasses it to draw them.

    It reads only what is public or was shown: a viewer of everything has no posterior.
    """

    def _role_tile(self, role: str) -> Tile:
        return Tile(role, "bad" if self.game.team_of(role) else "good")

    def _player(self, seat: int, known: Tile | None, *tiles: Tile, is_out: bool = False) -> Player:
        """Return a player, who can be clicked: the role or what is `known` of it, more tiles."""
        dealt = self.notes.dealt.get(seat)
        role = self._role_tile(dealt) if dealt else known or Tile("?", "hidden", "role unknown")
        said = [spoken.text for spoken in self.notes.spoken if spoken.player == seat]
        picks = () if self.seat is None else (f"Player {seat}",)
        tiles, bubble = (role, *tiles), said[-1] if said else ""
        return Player(self.game.seat_names[seat], seat, tiles, bubble, picks, is_out)


class HiddenRolesText(GameText):
    """Texts that games of hidden roles share."""

    game: HiddenRolesGame
    member: ClassVar[str]
    """Words for one of the minority: `a werewolf`."""
    prey: ClassVar[tuple[str, str]]
    """The role that the minority hunts, and words for it."""

    def narrate(self, event: Event) -> str:
        """Return one of the events that these games share as a sentence."""
        names = self.game.seat_names
        if isinstance(event, Spoken):
            # The audience matters: a wolf must not take it for public.
            channel = "" if event.to is None else f" (to {self.game.team_names[1]})"
            return f"{event.sentence(names)}{channel}"
        assert isinstance(event, RolesRevealed), event
        pairs = zip(names, event.roles, strict=True)
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

    @abstractmethod
    def _facts(self, notes: Any) -> Iterable[str]:
        """Return the notes of a player as lines."""

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the notes of this level and the legal actions; the rules list the statements."""
        notes, legal = observation.notes, observation.legal_actions
        assert isinstance(notes, RoleNotes)
        # After the game all roles are shown, and nothing is left to deduce.
        if level != "events" and notes.role and len(notes.dealt) < self.game.num_players:
            yield from self._facts(notes)
            if level == "deductions":
                yield from self._deductions(notes)
        if legal.of(ClaimSide):
            yield f"Your actions: {PASS} | STATEMENT | {Say.notation()}"
        else:
            yield from self._offer(observation, notes)

    def _offer(self, observation: Observation, notes: Any) -> Iterable[str]:
        """Return the legal actions as lines."""
        return super().situation(observation, "events")

    def _deductions(self, notes: RoleNotes) -> Iterator[str]:
        """Yield what follows from the facts; only the minority hunts."""
        game, (prey, prey_name) = self.game, self.prey
        evil = self._percentages(notes, game.minority)
        yield (
            f"Possible assignments of the roles: {notes.world_count():,}. Probability of being "
            f"{self.member}: {evil}."
        )
        if prey in game.role_list and game.team_of(notes.role):
            yield f"Probability of being {prey_name}: {self._percentages(notes, {prey})}."

    def _percentages(self, notes: RoleNotes, roles: Collection[str]) -> str:
        """Return the probability of each other seat: `Player 1 40 %, Player 2 0 %`."""
        pairs = zip(self.game.seat_names, notes.probabilities(roles), strict=True)
        shares = [f"{name} {per_cent(probability)}" for name, probability in pairs]
        return ", ".join(shares[: notes.player] + shares[notes.player + 1 :])

    def synonyms(self) -> Mapping[str, str]:
        """Return other words for the players; a game adds those for its actions."""
        names = self.game.seat_names
        return {f"{word}{seat}": name for word in ("seat ", "P") for seat, name in enumerate(names)}
