"""Statements in games of hidden roles: exact truth, what listeners believe, and talking bots.

A listener's belief is a distribution over the assignments of roles that are possible by its exact
knowledge, weighted by the statements that it has heard. The likelihood of a statement is a rate of
true and of false statements that depends on the side of the speaker and on whether its role can
know: `LEVEL1` for the listeners of the measure, `talker_rates` for the bots that listen.

The effect of a statement on a listener is the change of log2 b(T), where b(T) is the listener's
probability of the true set of the minority: the logarithmic score of its belief, in bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet, Decision, Event, Observation, Seat, Spoken
from arena.core.action import Promise
from arena.core.analysis import GameTalk
from games.hidden_roles.notes import RoleNotes, Worlds, members, role_worlds
from games.hidden_roles.rules import (
    ClaimCheck,
    ClaimRole,
    ClaimSide,
    HiddenRolesGame,
    PromiseMove,
    Suspect,
    Trust,
)

SPECTATOR = -1
"""Seat of notes that have what is public only."""
EXPECTED = (0.0, 0.9)
"""Lie rates that a listening bot expects: an honest majority, and a minority that mostly lies."""
MOST_WORLDS = 20_000
"""Assignments of the roles beyond which beliefs are not computed: tables of ten players."""

Rates = tuple[tuple[float, float], ...]
"""Likelihoods of a false and of a true statement, by the speaker: the majority about another
player, without a role that sees; the majority about itself; a role that sees about another player;
the minority."""
LEVEL1: Rates = ((0.2, 0.2), (0.05, 0.95), (0.05, 0.95), (0.5, 0.5))
"""The majority tells the truth about what it knows and guesses now and then; the minority may say
anything. `talker_rates` are those of the bots with a stated model."""


class RoleTalk(GameTalk):
    """Talk of a game of hidden roles."""

    game: HiddenRolesGame

    def holds(self, statement: Action, speaker: int, worlds: Worlds) -> NDArray[np.bool_] | None:
        """Return in which assignments (seats, worlds) a statement is true; None for a promise."""
        game, roles = self.game, self.game.role_list
        minority = members(roles, game.minority)
        found: NDArray[np.bool_]
        match statement:
            case ClaimRole(role):
                found = members(roles, {role})[worlds[speaker]]
            case ClaimSide(seat, side) | ClaimCheck(seat, side):
                found = minority[worlds[seat]] == (side == game.sides[1])
                if isinstance(statement, ClaimCheck):
                    found &= members(roles, game.seers)[worlds[speaker]]
            case Suspect(seat) | Trust(seat):
                found = minority[worlds[seat]] == isinstance(statement, Suspect)
            case _:
                return None
        return found

    def probability(self, statement: Action, speaker: int, knowledge: RoleNotes) -> float | None:
        """Return the share of the speaker's possible assignments in which a statement is true.

        A check says that the speaker knows: it is false if the speaker is not certain.
        """
        found = self.holds(statement, speaker, knowledge.worlds)
        if found is None:
            return None
        share = float(found.mean())
        return float(share == 1) if isinstance(statement, ClaimCheck) else share

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a vote or a card is the promised one; None for another kind of move."""
        assert isinstance(promise, PromiseMove)
        for moves in self.game.promised:
            if action in moves and promise.move in map(str, moves):
                return str(action) == promise.move
        return None

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether no deal makes both statements true; opinions may change."""
        factual = (ClaimRole, ClaimSide, ClaimCheck)
        if not isinstance(first, factual) or not isinstance(second, factual):
            return False
        return _contradict(self.game, first, second, speaker)


@lru_cache(maxsize=4096)
def _contradict(game: HiddenRolesGame, first: Action, second: Action, speaker: int) -> bool:
    worlds = role_worlds(game.role_list)
    one, other = (RoleTalk(game).holds(each, speaker, worlds) for each in (first, second))
    assert one is not None and other is not None
    return not bool((one & other).any())


def talker_rates(lie_rates: tuple[float, float], seats: int) -> Rates:
    """Return the rates of the bots that speak by lie rates about `seats` living players.

    A player of the majority knows its own side, which is one statement; a role that sees knows,
    early in a game, one other side too; the minority draws among as many true and false statements
    as there are seats.
    """
    majority, minority = lie_rates
    never = 1e-3
    return (
        (never, never),
        (max(majority, never), 1 - majority),
        (max(majority / (2 * seats), never), (1 - majority) / (2 * (seats - 1))),
        (minority / seats, max((1 - minority) / seats, never)),
    )


class Listener:
    """Belief of one listener: weights of the assignments that its knowledge allows.

    Args:
        talk: The talk of the game.
        rates: Likelihoods of false and of true statements, by the speaker.
    """

    def __init__(self, talk: RoleTalk, rates: Rates = LEVEL1) -> None:
        self.talk = talk
        self.rates = rates
        self.heard: list[tuple[int, Action]] = []
        self._worlds: Worlds | None = None
        self._logs = np.zeros(0)
        """Logarithms of the weights of `_worlds` after the first `_read` statements."""
        self._read = 0

    def hear(self, speaker: int, statement: Action) -> None:
        """Add a statement that was made to all."""
        self.heard.append((speaker, statement))

    def weights(self, worlds: Worlds) -> NDArray[np.float64]:
        """Return the probability of each assignment (worlds,) after all that was heard."""
        # The assignments of unchanged knowledge are the same array.
        if self._worlds is not worlds:
            self._worlds, self._logs, self._read = worlds, np.zeros(worlds.shape[1]), 0
        for speaker, statement in self.heard[self._read :]:
            self._logs += self.log_likelihood(speaker, statement, worlds)
        self._read = len(self.heard)
        weights: NDArray[np.float64] = np.exp(self._logs - self._logs.max())
        weights /= weights.sum()
        return weights

    def log_likelihood(
        self, speaker: int, statement: Action, worlds: Worlds
    ) -> NDArray[np.float64]:
        """Return the logarithm of the likelihood of a statement in each assignment (worlds,)."""
        found = self.talk.holds(statement, speaker, worlds)
        if found is None:
            return np.zeros(worlds.shape[1])
        game, role = self.talk.game, worlds[speaker]
        # The place in `rates` of the speaker's kind in each assignment.
        sees = 2 * members(game.role_list, game.seers)[role]
        minority = members(game.role_list, game.minority)[role]
        about_itself = getattr(statement, "seat", speaker) == speaker
        speakers = np.where(minority, 3, 1 if about_itself else sees)
        logs: NDArray[np.float64] = np.log(self.rates)[speakers, found.astype(int)]
        return logs

    def suspicion(self, worlds: Worlds) -> NDArray[np.float64]:
        """Return for each seat the probability that it is of the minority (seats,)."""
        game = self.talk.game
        minority = members(game.role_list, game.minority)[worlds]
        suspected: NDArray[np.float64] = minority @ self.weights(worlds)
        return suspected


def true_minority(
    game: HiddenRolesGame, worlds: Worlds, truth: tuple[str, ...]
) -> NDArray[np.bool_]:
    """Return the assignments (worlds,) in which the minority is the true one."""
    sides = members(game.role_list, game.minority)[worlds]
    found: NDArray[np.bool_] = (sides == [[game.team_of(role) == 1] for role in truth]).all(axis=0)
    return found


class RoleBot(ABC):
    """Base of bots with notes of their seat and of a spectator, whose talk two attributes set.

    The model of their talk is stated, so that measures of talk can be checked against it:

    - A seat chooses among the statements `claim Player N SIDE` about all living seats whose truth
      it knows for certain. With the lie rate of its side it draws one that is false, else one that
      is true.
    - A strategic seat of the minority makes the one after which a listener of level 1 with public
      knowledge suspects its side least.
    - A listening seat weighs the roles that are possible by its exact knowledge with the likelihood
      of what was stated (`Listener`).
    """

    lie_rates: ClassVar[tuple[float, float] | None] = None
    """Shares of lies among the claims of the majority and of the minority; None: no claims."""
    deceives: ClassVar[bool] = False
    """True if it makes, as one of the minority, the claim that misleads most."""

    def __init__(self, seat: Seat) -> None:
        game = seat.game
        assert isinstance(game, HiddenRolesGame) and isinstance(game.talk, RoleTalk)
        self.game: Any = game
        self.player, self._rng, self.talk = seat.player, seat.rng, game.talk
        self._notes: Any = game.text.new_notes(seat.player)
        self._public: Any = game.text.new_notes(SPECTATOR)
        self.listener = Listener(game.talk, talker_rates(EXPECTED, game.num_players))
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        """Read the new events and choose an action."""
        for event in observation.events_since(self._read):
            self._witness(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    @abstractmethod
    def _choose(self, legal: ActionSet) -> Action:
        """Choose an action by the notes."""

    def _witness(self, event: Event) -> None:
        """Note one more event."""
        self._notes.update(event)
        if event.audience is None:
            self._public.update(event)
        if isinstance(event, Spoken) and event.to is None and event.player != self.player:
            for statement in self.game.actions.attached(event.text):
                self.listener.hear(event.player, statement)

    @property
    def _makes_claims(self) -> bool:
        """Whether the bot makes claims."""
        return self.lie_rates is not None and bool(self.game.actions.statements)

    @property
    def _is_minority(self) -> bool:
        return bool(self.game.team_of(self._notes.role))

    def _claims_known(self, seats: Sequence[int]) -> Mapping[ClaimSide, bool]:
        """Return the claims about sides whose truth the seat knows, and whether they are true."""
        # The minority first: the order decides what a seed draws.
        claims = (ClaimSide(seat, side) for seat in seats for side in self.game.sides[::-1])
        known = ((each, self.talk.probability(each, self.player, self._notes)) for each in claims)
        return {claim: bool(share) for claim, share in known if share in (0.0, 1.0)}

    def _claim(self, seats: Sequence[int]) -> Action:
        """Return a claim about one of these seats, by the stated model."""
        is_minority, claims = self._is_minority, self._claims_known(seats)
        if is_minority and self.deceives:
            return self._deceive(seats, claims)
        assert self.lie_rates is not None
        wanted = self._rng.random() >= self.lie_rates[is_minority]
        # A true one if there is no other.
        chosen = [claim for claim, is_true in claims.items() if is_true == wanted]
        return self._rng.choice(chosen or list(claims))

    def _deceive(self, seats: Sequence[int], claims: Mapping[ClaimSide, bool]) -> Action:
        """Return the claim that leaves the least public suspicion of the own side; draw ties."""
        known = self._notes.probabilities(self.game.minority)
        own = [seat for seat in seats if known[seat] == 1]
        values = {
            claim: -float(self._suspicion_after(claim, self._public.worlds)[own].sum())
            for claim in claims
        }
        best = max(values.values())
        return self._rng.choice([c for c, value in values.items() if value > best - 1e-9])

    def _suspicion_after(self, claim: Action, worlds: Worlds) -> NDArray[np.float64]:
        listener = Listener(self.talk, LEVEL1)
        listener.heard = [*self.listener.heard, (self.player, claim)]
        return listener.suspicion(worlds)
