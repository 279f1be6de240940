"""Rule-based bot of Avalon after AvalonBench, whose opponents and baselines play like this.

J. Light, M. Cai, S. Shen and Z. Hu, "AvalonBench: evaluating LLMs playing the game of Avalon",
FMDM workshop at NeurIPS 2023, arXiv:2310.05036. What the bots do is known from the program of the
authors (github.com/jonathanmli/Avalon-LLM, `baseline_agents.py`); this is written anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena import Action
from games.avalon.bots import AvalonDeducer, clean_probabilities
from games.avalon.moves import (
    APPROVE,
    ASSASSIN,
    FAIL,
    MAX_PROPOSALS,
    MERLIN,
    REJECT,
    SUCCESS,
    Assassinate,
    Propose,
)


class AvalonNaive(AvalonDeducer):
    """Bot that follows fixed rules for each role; it makes no statements.

    - Evil knows itself. A leader takes itself and good players at random; a player approves a team
      that can fail. The Minion leaves the only `fail` to the Assassin, who names a good player at
      random; without an Assassin each Minion plays it.
    - Merlin takes itself and good players at random, and approves teams without evil.
    - A servant proposes and approves only the teams that are most probably without evil, given the
      numbers of `fail` cards. Of these it prefers the ones inside the largest team that has
      succeeded, then the ones around it.

    In AvalonBench the fifth proposal of a mission passes without a vote; here all approve it.
    """

    def _propose(self, teams: Sequence[Propose]) -> Action:
        if not self._is_evil and self._notes.role != MERLIN:  # A servant.
            preferred = self._preferred()
            return self._rng.choice([team for team in teams if team.seats in preferred])
        evil = self._allies - ({self.player} if not self._is_evil else set())
        # Evil needs as many evil members as `fail` cards, Merlin none.
        wanted = min(self._fails_needed, len(evil)) if self._is_evil else 0
        return self._rng.choice(
            [
                team
                for team in teams
                if self.player in team.seats and len(evil.intersection(team.seats)) == wanted
            ]
        )

    def _vote(self) -> Action:
        proposal = self._notes.proposals[-1]
        if proposal.attempt == MAX_PROPOSALS:
            return APPROVE
        if self._is_evil:
            approves = len(self._allies.intersection(proposal.seats)) >= self._fails_needed
        elif self._notes.role == MERLIN:
            approves = not self._allies.difference((self.player,)).intersection(proposal.seats)
        else:
            approves = proposal.seats in self._preferred()
        return APPROVE if approves else REJECT

    def _play(self) -> Action:
        if not self._is_evil:
            return SUCCESS
        members = len(self._allies.intersection(self._notes.proposals[-1].seats))
        if members < self._fails_needed:
            return SUCCESS
        # Of two evil players in the game, the Assassin alone plays the one card that is needed.
        leaves_it = members > self._fails_needed == 1 and len(self._allies) == 2
        has_assassin = ASSASSIN in self.game.role_list
        return SUCCESS if leaves_it and has_assassin and self._notes.role != ASSASSIN else FAIL

    def _guess(self, guesses: Sequence[Assassinate]) -> Action:
        return self._rng.choice(guesses)

    def _preferred(self) -> list[tuple[int, ...]]:
        """Return the teams that a servant proposes and approves for the next mission."""
        teams = [team.seats for team in self.game.proposals(self._notes.mission).of(Propose)]
        known = self._notes.posterior.teams(self.game.minority_roles)
        clean = clean_probabilities(teams, known)
        best = [t for t, value in zip(teams, clean, strict=True) if value >= clean.max() - 1e-9]
        proven = max(
            (set(m.seats) for m in self._notes.missions if not m.fails), key=len, default=None
        )
        if proven is None or len(best) == 1:
            return best
        inside = [team for team in best if proven.issuperset(team)]
        return inside or [team for team in best if proven.issubset(team)] or best
