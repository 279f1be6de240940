"""Rules that games of hidden roles share: the deal of roles, and phases of sealed commitments.

A game is a sequence of phases. In each phase some players commit an action, in any order, and
no player learns anything before the last one has committed. A phase of one player is the usual
move. So a position is complete with the phase and the commitments of the phase so far.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

from arena import CHANCE, Action, GameAnalysis, InvalidAction, Speech, Spoken, State, Step
from games.hidden_roles.base import ROLE_FACTS, DealRoles, HiddenRolesBase, RoleDealt, RolesRevealed
from games.hidden_roles.posterior import RolePosterior


def _redraw_sealed(
    other: HiddenRolesState, phase: Mapping[int, Action], player: int, rng: random.Random
) -> dict[int, Action]:
    """Draw the commitments of an unfinished phase again; only the player's own one is known."""
    drawn = {}
    # Statements are drawn too: silence is sealed as well.
    for seat, action in phase.items():
        legal = other.legal_actions(seat)
        spoken = [offer.sample(rng) for offer in legal.speech]
        drawn[seat] = action if seat == player else rng.choice([*legal, *spoken])
    return drawn


class HiddenRolesState(State, ABC):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: HiddenRolesBase

    def __init__(self, game: HiddenRolesBase) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.phase = "deal"
        self.dealt: tuple[str, ...] = ()
        """The role of each seat; empty before the deal."""
        self.sealed: dict[int, Action] = {}
        """Commitments of the current phase, by seat."""
        self.winner: int | None = None
        """The team that has won; None before the end."""

    def roles(self) -> tuple[str, ...]:
        """Return the role of each seat; empty before the deal."""
        return self.dealt

    def teams(self) -> tuple[int, ...]:
        """Return the team of each seat; empty before the deal."""
        return tuple(map(self.game.team_of, self.dealt))

    @abstractmethod
    def _start(self) -> None:
        """Begin the game after the deal."""

    @abstractmethod
    def _resolve(self, phase: Mapping[int, Action]) -> None:
        """Carry out a phase after its last commitment; `phase` is in the order of seats."""

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw a deal; all orders of the roles are equally likely."""
        roles = list(self.game.role_list)
        # One shuffle of a list in a fixed order: the deal of a seed stays the same.
        rng.shuffle(roles)
        return DealRoles(tuple(roles))

    def _is_possible(self, action: Action) -> bool:
        # Equal numbers of each role; the order of the seats is free.
        return isinstance(action, DealRoles) and Counter(action.roles) == Counter(
            self.game.role_list
        )

    def parse(self, text: str) -> Action:
        """Parse `str(action)` for the actions that are possible here, the deal included."""
        if self.to_act != (CHANCE,):
            return super().parse(text)
        deal = DealRoles(tuple(text.removeprefix("deal ").split(", ")))
        # Only the exact text of a deal counts, as in a replay.
        if str(deal) != text or not self._is_possible(deal):
            raise InvalidAction(f"'{text}' does not deal each role of the game to one seat")
        return deal

    def _begin(self, phase: str, players: tuple[int, ...]) -> None:
        self.phase, self.to_act, self.sealed = phase, players, {}

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, DealRoles):
            self.dealt = action.roles
            # Each seat witnesses its own role only.
            for seat, role in enumerate(action.roles):
                self.log.append(RoleDealt(seat, role))
            self._start()
            return
        # A commitment is sealed: there is no event before the last player has committed.
        self.sealed = {**self.sealed, player: action}
        self.to_act = tuple(seat for seat in self.to_act if seat != player)
        if not self.to_act:
            phase = dict(sorted(self.sealed.items()))
            self.sealed = {}
            self._resolve(phase)

    def _log_statements(
        self, phase: Mapping[int, Action], to: tuple[int, ...] | None = None
    ) -> None:
        """Publish the statements of a phase in the order of the seats, to all or to some seats."""
        for seat, action in phase.items():
            if isinstance(action, Speech):
                self.log.append(Spoken(seat, action.text, to))

    def _end(self, winner: int) -> None:
        """End the game: all roles are revealed."""
        self.phase, self.to_act, self.winner = "end", (), winner
        self.log.append(RolesRevealed(self.dealt))

    def returns(self) -> tuple[float, ...]:
        """Return 1 for each member of the team that has won and 0 for the others."""
        # A truncated game has no winner, so it pays nothing.
        if self.winner is None:
            return (0.0,) * self.game.num_players
        return tuple(float(team == self.winner) for team in self.teams())


class HiddenRolesAnalysis(GameAnalysis, ABC):
    """Exact posterior of the roles, and other worlds drawn from it."""

    game: HiddenRolesBase

    facts = ROLE_FACTS

    @abstractmethod
    def knowledge(self, player: int) -> RolePosterior:
        """Return the posterior of `player` over the roles, before the deal."""

    @abstractmethod
    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw the actions of a finished phase in another world that looks the same to `player`.

        Args:
            before: The true position at the beginning of the phase.
            other: The same position in the other world.
            phase: The true action of each seat.
            player: The seat that must not see a difference; it takes the same action.
            rng: Source of the draws.
        """

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the roles from the posterior of `player`, and then all hidden actions again."""
        # Before the deal there is nothing to draw again.
        if not history:
            return []
        roles = self._sample_roles(history, player, rng)
        state, other = self.game.initial_state(), self.game.initial_state()
        assert isinstance(state, HiddenRolesState) and isinstance(other, HiddenRolesState)
        steps: list[Step] = []
        while len(steps) < len(history):
            # A history is a sequence of phases; only the last one may be unfinished.
            size = len(state.to_act)
            batch = history[len(steps) : len(steps) + size]
            phase = {step.player: step.action for step in batch}
            if CHANCE in phase:
                drawn: Mapping[int, Action] = {CHANCE: DealRoles(roles)}
            elif len(batch) == size:
                drawn = self.redraw(state, other, phase, player, rng)
            else:
                drawn = _redraw_sealed(other, phase, player, rng)
            # In the true order of commitment, which no player can see.
            for step in batch:
                state.apply(step.player, step.action)
                other.apply(step.player, drawn[step.player])
                steps.append(Step(step.player, drawn[step.player]))
        return steps

    def _sample_roles(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> tuple[str, ...]:
        state = self.game.initial_state()
        for step in history:
            state.apply(step.player, step.action)
        knowledge = self.knowledge(player)
        for event in state.log.witnessed[player]:
            knowledge.update(event)
        return knowledge.sample(rng)
