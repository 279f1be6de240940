"""Bots of Avalon: by the exact posterior of the roles, by fixed rules, and with statements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet
from games.avalon.notes import AvalonNotes
from games.avalon.rules import (
    APPROVE,
    ASSASSIN,
    FAIL,
    MAX_PROPOSALS,
    MERLIN,
    REJECT,
    SUCCESS,
    Assassinate,
    Avalon,
    PlayCard,
    Propose,
    VoteOnTeam,
)
from games.hidden_roles.notes import members
from games.hidden_roles.rules import PASS
from games.hidden_roles.talk import RoleBot

FAIL_RATE = 0.9
"""Assumed probability that an evil member of a team plays `fail`."""
APPROVAL = {(True, True): 0.5, (True, False): 0.1, (False, True): 0.3, (False, False): 0.65}
"""Assumed probability of approval, by (voter is evil, team has an evil member): the rates that this
bot shows in both teams, rounded."""
TOLERANCE = 0.6
"""Share of the best team's probability of being free of evil below which a team is rejected."""

Suspicion = tuple[NDArray[np.bool_], NDArray[np.float64]]
"""Possible sets of evil seats, shape (sets, seats), and the probability of each, shape (sets,)."""


def weighted(notes: AvalonNotes) -> Suspicion:
    """Weight the exact sets of evil seats by the likelihood of missions and votes.

    Of k evil members f play `fail` with probability C(k, f) q^f (1 - q)^(k - f); the binomial
    coefficient is the number of ways, and 0 for k < f.
    """
    sets, prior = notes.minority_sets()
    # Sums of logarithms: products of many rates would underflow.
    logs = np.log(prior)
    for mission in notes.missions:
        evil = sets[:, list(mission.seats)].sum(axis=1)
        ways = np.array([math.comb(k, mission.fails) for k in range(len(mission.seats) + 1)])
        fails = mission.fails
        likelihood = ways[evil] * FAIL_RATE**fails * (1 - FAIL_RATE) ** (evil - fails)
        logs += np.log(np.maximum(likelihood, 1e-12))
    for proposal, vote in notes.voted:
        # In the last proposal good players approve anything, because a rejection loses.
        if proposal.attempt == MAX_PROPOSALS:
            continue
        dirty = sets[:, list(proposal.seats)].any(axis=1)
        votes = np.array(vote.votes)
        for is_evil in (True, False):
            for is_dirty in (True, False):
                rate = APPROVAL[is_evil, is_dirty]
                each = np.log(np.where(votes, rate, 1 - rate))
                logs += (dirty == is_dirty) * ((sets == is_evil) @ each)
    weights = np.exp(logs - logs.max())
    return sets, weights / weights.sum()


class AvalonDeducer(RoleBot):
    """Bot that reasons about the sets of evil seats; it makes no statements.

    Good: propose the team that is most probably free of evil, and approve a team that is at least
    as probably so as the best team without oneself, and not much less so than the best of all.
    Evil: propose oneself with the players whom the table trusts most, let as many known members
    play `fail` as are needed, and vote as a servant in the same seat would, unless the vote may
    decide the game: votes that follow the truth would give evil away. The Assassin names the good
    player whose votes and proposals fit the truth best. As Serrino et al. (2019), it weights exact
    sets of roles by a model of the players.
    """

    game: Avalon
    _notes: AvalonNotes
    _public: AvalonNotes

    @property
    def _losses(self) -> int:
        """Missions that failed."""
        return sum(not mission.succeeded for mission in self._notes.missions)

    @property
    def _allies(self) -> set[int]:
        """The evil seats that an evil player knows, its own included."""
        secret = self._notes.secret
        return {self.player, *(secret.seats if secret else ())}

    @property
    def _fails_needed(self) -> int:
        return self.game.fails_needed(self._notes.mission)

    def _choose(self, legal: ActionSet) -> Action:
        first = legal[0]
        match first:
            case Propose():
                return self._propose(legal.of(Propose))
            case VoteOnTeam():
                proposal = self._notes.proposals[-1]
                is_last = proposal.attempt == MAX_PROPOSALS
                return APPROVE if is_last or self._approves(proposal.seats) else REJECT
            case PlayCard():
                return FAIL if self._is_minority and self._fails() else SUCCESS
            case Assassinate():
                return self._guess(legal.of(Assassinate))
            case _:
                # What Merlin knows would give Merlin away.
                speaks = self._makes_claims and self._notes.role != MERLIN
                return self._claim(range(self.game.num_players)) if speaks else PASS

    def _suspicion(self) -> Suspicion:
        """Return the possible sets of evil seats for this player.

        Evil plays as an uninformed servant, and so does Merlin until good has lost a mission.
        """
        if self._is_minority or (self._notes.role == MERLIN and not self._losses):
            sets, weights = self._weighted(self._public)
            possible = ~sets[:, self.player]
            return sets[possible], weights[possible] / weights[possible].sum()
        return self._weighted(self._notes)

    def _weighted(self, notes: AvalonNotes) -> Suspicion:
        """Return the possible sets of evil seats for the player of these notes."""
        return weighted(notes)

    def _propose(self, teams: Sequence[Propose]) -> Action:
        if self._is_minority:
            # Evil chooses members that the table trusts.
            suspicion = weighted(self._public)
            teams = [
                team
                for team in teams
                if self.player in team.seats
                and len(self._allies.intersection(team.seats))
                == min(self._fails_needed, len(self._allies))
            ]
        else:
            suspicion = self._suspicion()
        clean = clean_probabilities([team.seats for team in teams], suspicion)
        best = clean.max() - 1e-9
        good = [team for team, value in zip(teams, clean, strict=True) if value >= best]
        # One's own seat is safe, and a place on the team gives information.
        own = [team for team in good if self.player in team.seats]
        return self._rng.choice(own or good)

    def _approves(self, seats: tuple[int, ...]) -> bool:
        """Return the vote on a team, not on the last one of a mission."""
        if self._is_minority:
            can_fail = len(self._allies.intersection(seats)) >= self._fails_needed
            # One more lost mission wins the game, and one more won mission ends it.
            if can_fail and self._losses == 2:
                return True
            if not can_fail and self._notes.mission - self._losses == 2:
                return False
        teams = list(combinations(range(self.game.num_players), len(seats)))
        clean = clean_probabilities(teams, self._suspicion())
        # The leader's view is another one: a team without oneself may be the best that it knows.
        best_without = max(
            value for team, value in zip(teams, clean, strict=True) if self.player not in team
        )
        wanted = max(best_without, TOLERANCE * clean.max()) - 1e-9
        return bool(clean[teams.index(seats)] >= wanted)

    def _fails(self) -> bool:
        """Return whether this evil member of a team plays `fail`."""
        needed = self._fails_needed
        allies = sorted(self._allies.intersection(self._notes.proposals[-1].seats))
        # Too few fails only give away that evil is on the team; too many give away who is.
        return len(allies) >= needed and self.player in allies[:needed]

    def _guess(self, guesses: Sequence[Assassinate]) -> Action:
        assert self._notes.revealed is not None
        evil = set(self._notes.revealed.seats)
        scores = dict.fromkeys((guess.seat for guess in guesses), 0.0)
        for proposal, vote in self._notes.voted:
            clean = not evil.intersection(proposal.seats)
            for seat in scores:
                # Votes on the last proposal are forced.
                if proposal.attempt < MAX_PROPOSALS:
                    scores[seat] += 1 if vote.votes[seat] == clean else -1
            if proposal.leader in scores:
                scores[proposal.leader] += 1 if clean else -1
        merlin = self._notes.probabilities((MERLIN,))
        best = max(scores[guess.seat] for guess in guesses if merlin[guess.seat])
        return self._rng.choice(
            [guess for guess in guesses if scores[guess.seat] == best and merlin[guess.seat]]
        )


def clean_probabilities(
    teams: Sequence[Sequence[int]], suspicion: Suspicion
) -> NDArray[np.float64]:
    """Return for each team the probability that it has no evil member: shape (teams,)."""
    sets, weights = suspicion
    # A team is free of evil if it has no seat in common with the evil set.
    on_team = np.zeros((len(teams), sets.shape[1]), np.int64)
    np.put_along_axis(on_team, np.array(teams), 1, axis=1)
    return np.asarray(((on_team @ sets.T) == 0) @ weights)


class AvalonNaive(AvalonDeducer):
    """Bot that follows fixed rules for each role, after AvalonBench; it makes no statements.

    J. Light, M. Cai, S. Shen and Z. Hu, "AvalonBench: evaluating LLMs playing the game of Avalon",
    FMDM workshop at NeurIPS 2023, arXiv:2310.05036. What the bots do is known from the program of
    the authors (github.com/jonathanmli/Avalon-LLM, `baseline_agents.py`); this is written anew.

    - Evil knows itself. A leader takes itself and good players at random; a player approves a team
      that can fail. The Minion leaves the only `fail` to the Assassin, who names a good player at
      random.
    - Merlin takes itself and good players at random, and approves teams without evil.
    - A servant proposes and approves only the teams that are most probably without evil, given the
      numbers of `fail` cards. Of these it prefers the ones inside the largest team that has
      succeeded, then the ones around it.

    In AvalonBench the fifth proposal of a mission passes without a vote; here all approve it.
    """

    @property
    def _is_servant(self) -> bool:
        return not self._is_minority and self._notes.role != MERLIN

    def _known_evil(self, seats: tuple[int, ...]) -> int:
        """Return the number of evil seats that Merlin or an evil player knows on a team."""
        known = self._allies if self._is_minority else self._allies - {self.player}
        return len(known.intersection(seats))

    def _propose(self, teams: Sequence[Propose]) -> Action:
        if self._is_servant:
            preferred = self._preferred()
            return self._rng.choice([team for team in teams if team.seats in preferred])
        # Evil needs as many evil members as `fail` cards, Merlin none.
        wanted = min(self._fails_needed, len(self._allies)) if self._is_minority else 0
        own = [team for team in teams if self.player in team.seats]
        return self._rng.choice([team for team in own if self._known_evil(team.seats) == wanted])

    def _approves(self, seats: tuple[int, ...]) -> bool:
        if self._is_servant:
            return seats in self._preferred()
        evil = self._known_evil(seats)
        return evil >= self._fails_needed if self._is_minority else not evil

    def _fails(self) -> bool:
        evil = self._known_evil(self._notes.proposals[-1].seats)
        # Of two evil players in the game, the Assassin alone plays the one card that is needed.
        leaves_it = evil > self._fails_needed == 1 and len(self._allies) == 2
        is_minion = self._notes.role != ASSASSIN
        return evil >= self._fails_needed and not (leaves_it and is_minion)

    def _guess(self, guesses: Sequence[Assassinate]) -> Action:
        return self._rng.choice(guesses)

    def _preferred(self) -> list[tuple[int, ...]]:
        """Return the teams that a servant proposes and approves for the next mission."""
        proposals = self.game.proposals[self._notes.mission].of(Propose)
        teams = [team.seats for team in proposals]
        clean = clean_probabilities(teams, self._notes.minority_sets())
        best = [t for t, value in zip(teams, clean, strict=True) if value >= clean.max() - 1e-9]
        proven = max(
            (set(m.seats) for m in self._notes.missions if not m.fails), key=len, default=None
        )
        if proven is None or len(best) == 1:
            return best
        inside = [team for team in best if proven.issuperset(team)]
        return inside or [team for team in best if proven.issubset(team)] or best


class AvalonTalker(AvalonDeducer):
    """Deducer that makes true claims, by the model of `RoleBot`; Merlin keeps silent.

    Without the option `talk=statements` all of these bots are silent.
    """

    lie_rates = (0.0, 0.0)


class AvalonDeceiver(AvalonTalker):
    """Makes, as evil, the claim that moves a listener of level 1 furthest from evil."""

    deceives = True


class AvalonSceptic(AvalonDeceiver):
    """Listens as a Bayesian who expects each side to lie at its rate."""

    def _weighted(self, notes: AvalonNotes) -> Suspicion:
        sets, weights = super()._weighted(notes)
        heard = self.listener.weights(notes.worlds)
        evil = members(self.game.role_list, self.game.minority)[notes.worlds]
        # The mean weight of the assignments of each set, which are in the order of `sets`.
        _, places = np.unique((1 << np.arange(len(evil))) @ evil, return_inverse=True)
        weights = weights * np.bincount(places, heard) / np.bincount(places)
        return sets, weights / weights.sum()
