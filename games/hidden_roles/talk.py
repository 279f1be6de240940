"""Claims in games of hidden roles: exact truth, and what listeners believe after them.

A listener's belief is a distribution over the assignments of roles that are possible by its exact
knowledge, weighted by the claims that it has heard. Two models of listeners are stated:

- literal: a claim is true but for a slip: its likelihood is 1 - SLIP in assignments where it is
  true, SLIP where it is false.
- level 1: the likelihood is a rate of true and of false claims that depends on the side of the
  speaker and on whether its role can know (`LEVEL1`).

The effect of a claim on a listener is the change of log2 b(T), where b(T) is the listener's
probability of the true set of the minority: the logarithmic score of its belief, in bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from arena.core.analysis import Knowledge
from arena.core.claims import Claim, GameTalk
from games.hidden_roles.game import HiddenRolesGame
from games.hidden_roles.knowledge import RolePosterior, members, role_worlds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from games.hidden_roles.knowledge import Worlds

SLIP = 0.05
"""Rate at which a literal listener expects a false claim."""
MOST_WORLDS = 20_000
"""Assignments of the roles beyond which beliefs are not computed: tables of ten players."""

Rates = tuple[tuple[float, float], ...]
"""Likelihoods of a false and of a true claim, by the speaker: the majority about another player,
without a role that sees; the majority about itself; a role that sees about another player; the
minority."""
LITERAL: Rates = ((SLIP, 1 - SLIP),) * 4
LEVEL1: Rates = ((0.2, 0.2), (0.05, 0.95), (0.05, 0.95), (0.5, 0.5))
"""The majority tells the truth about what it knows and guesses now and then; the minority may say
anything. `talker_rates` are those of the bots with a stated model."""
MODELS: Mapping[str, Rates] = {"literal_bits": LITERAL, "level1_bits": LEVEL1}
"""Models of listeners, by the name of the measure of their effect."""


class RoleTalk(GameTalk):
    """Talk of a game of hidden roles; a game names its groups and words."""

    game: HiddenRolesGame
    minority: ClassVar[str]
    """Name of the minority in claims: the group that a suspicion is about."""

    @property
    @abstractmethod
    def sees(self) -> frozenset[str]:
        """Roles that can have learned something about another player."""

    @abstractmethod
    def members(self, group: str) -> frozenset[str]:
        """Return the roles of a group: a side, or one role."""

    def holds(self, claim: Claim, speaker: int, worlds: Worlds) -> NDArray[np.bool_] | None:
        """Return in which assignments (seats, worlds) a claim is true; None for an intention."""
        if claim.player is None or claim.kind not in ("identity", "sighting", "suspicion"):
            return None
        roles = self.game.role_list
        group = self.minority if claim.kind == "suspicion" else claim.content
        found: NDArray[np.bool_] = members(roles, self.members(group))[worlds[claim.player]]
        if not claim.holds:
            found = ~found
        if claim.kind == "sighting":
            found = found & members(roles, self.sees)[worlds[speaker]]
        return found

    def probability(self, claim: Claim, speaker: int, knowledge: Knowledge) -> float | None:
        """Return the share of the speaker's possible assignments in which a claim is true.

        A sighting says that the speaker knows: it is false if the speaker is not certain.
        """
        assert isinstance(knowledge, RolePosterior)
        found = self.holds(claim, speaker, knowledge.worlds)
        if found is None:
            return None
        share = float(found.mean())
        return float(share == 1) if claim.kind == "sighting" else share

    def contradict(self, first: Claim, second: Claim, speaker: int) -> bool:
        """Return whether no deal makes both claims true; opinions and guesses may change."""
        factual = ("identity", "sighting")
        if any(c.kind not in factual or c.confidence is not None for c in (first, second)):
            return False
        return _contradict(self, first, second, speaker)

    def __hash__(self) -> int:
        return hash(type(self)) ^ hash(self.game)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.game == getattr(other, "game", None)


@lru_cache(maxsize=4096)
def _contradict(talk: RoleTalk, first: Claim, second: Claim, speaker: int) -> bool:
    worlds = role_worlds(talk.game.role_list)
    one, other = (talk.holds(claim, speaker, worlds) for claim in (first, second))
    assert one is not None and other is not None
    return not bool((one & other).any())


def talker_rates(lie_rates: tuple[float, float], seats: int) -> Rates:
    """Return the rates of the bots that speak by lie rates about `seats` living players.

    A player of the majority knows its own side, which is one claim; a role that sees knows, early
    in a game, one other side too; the minority draws among as many true and false claims as there
    are seats.
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
        rates: Likelihoods of false and of true claims, by the speaker.
    """

    def __init__(self, talk: RoleTalk, rates: Rates = LEVEL1) -> None:
        self.talk = talk
        self.rates = rates
        self.heard: list[tuple[int, Claim]] = []
        self._worlds: Worlds | None = None
        self._logs: NDArray[np.float64] | None = None

    def hear(self, speaker: int, claim: Claim) -> None:
        """Add a claim that was made to all."""
        self.heard.append((speaker, claim))
        if self._worlds is not None and self._logs is not None:
            self._logs = self._logs + self.log_likelihood(speaker, claim, self._worlds)

    def weights(self, worlds: Worlds) -> NDArray[np.float64]:
        """Return the probability of each assignment (worlds,) after all claims that were heard."""
        import numpy as np  # Imported late: listing the games must stay fast.

        # The assignments of unchanged knowledge are the same array.
        if self._logs is None or self._worlds is not worlds:
            self._worlds, self._logs = worlds, np.zeros(worlds.shape[1])
            for speaker, claim in self.heard:
                self._logs = self._logs + self.log_likelihood(speaker, claim, worlds)
        weights: NDArray[np.float64] = np.exp(self._logs - self._logs.max())
        weights /= weights.sum()
        return weights

    def log_likelihood(self, speaker: int, claim: Claim, worlds: Worlds) -> NDArray[np.float64]:
        """Return the logarithm of the likelihood of a claim in each assignment (worlds,)."""
        import numpy as np  # Imported late: listing the games must stay fast.

        found = self.talk.holds(claim, speaker, worlds)
        if found is None:
            return np.zeros(worlds.shape[1])
        game, role = self.talk.game, worlds[speaker]
        # The place in `rates` of the speaker's kind in each assignment.
        sees = 2 * members(game.role_list, self.talk.sees)[role]
        minority = members(game.role_list, game.minority_roles)[role]
        speakers = np.where(minority, 3, 1 if claim.player == speaker else sees)
        logs: NDArray[np.float64] = np.log(self.rates)[speakers, found.astype(int)]
        # A hedge weakens the evidence: the likelihood ratio to the power 2 c - 1.
        return logs if claim.confidence is None else logs * (2 * claim.confidence - 1)

    def suspicion(self, worlds: Worlds) -> NDArray[np.float64]:
        """Return for each seat the probability that it is of the minority (seats,)."""
        game = self.talk.game
        minority = members(game.role_list, game.minority_roles)[worlds]
        suspected: NDArray[np.float64] = minority @ self.weights(worlds)
        return suspected


def true_minority(
    game: HiddenRolesGame, worlds: Worlds, truth: tuple[str, ...]
) -> NDArray[np.bool_]:
    """Return the assignments (worlds,) in which the minority is the true one."""
    sides = members(game.role_list, game.minority_roles)[worlds]
    found: NDArray[np.bool_] = (sides == [[game.team_of(role) == 1] for role in truth]).all(axis=0)
    return found
