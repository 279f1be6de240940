"""Bot of Werewolf: the exact posterior of the roles, weighted by votes, and short statements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from arena import Action, ActionSet, Decision, Event, Observation, Say, Seat, Spoken
from games.hidden_roles.game import PASS
from games.werewolf.game import Werewolf
from games.werewolf.knowledge import WerewolfNotes
from games.werewolf.moves import (
    NO_SEAT,
    PACK,
    SEER,
    WOLF,
    DayVote,
    Inspect,
    NightKill,
    Protect,
    ShootPlayer,
)

BETRAYAL = 0.25
"""Assumed rate of votes of a wolf against a wolf, relative to those of a villager."""
FRAMING = 1.2
"""Assumed rate of votes of a wolf against another player, relative to those of a villager."""
MENTION = 0.05
"""Weight of one suspicion that another player states, as a probability."""
TRUE_CLAIM, TREASON, LIE, BLUNDER = 1.0, 0.02, 0.3, 0.01
"""Assumed rates at which players claim to be the seer and name a seat: the seer a wolf, a wolf a
wolf, a wolf another player, a villager another player."""
LOYALTY = 0.3
"""Public suspicion by which a wolf must exceed all others before its pack votes against it."""

_CLAIM = re.compile(r"I am the seer\. Player (\d+) is a werewolf\.")
_SUSPICION = re.compile(r"I suspect Player (\d+)\.")


class WerewolfDeducer:
    """Bot that votes for the probable wolf; the seer reports a wolf, and the wolves hunt the seer.

    Braverman, Etesami and Mossel (2008) show that a village with a seer wins by pooling what it
    knows. Here all vote for the seat that is most suspicious by the exact posterior, weighted by
    votes and by claims to be the seer. One wolf makes such a claim, too.
    """

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Werewolf)
        self.game = seat.game
        self.player = seat.player
        self._rng = seat.rng
        self._notes = WerewolfNotes(seat.game, seat.player)
        self._public = WerewolfNotes(seat.game, NO_SEAT)
        """Notes of a spectator, who knows only what is public."""
        self._claims: dict[int, set[int]] = {}
        """For each player who claims to be the seer, the wolves that it named."""
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        """Process the new events and choose an action."""
        for event in observation.events_since(self._read):
            self._notes.update(event)
            if event.audience is None:
                self._public.update(event)
            self._hear(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    def _hear(self, event: Event) -> None:
        """Note the claim of a seer."""
        claim = _CLAIM.fullmatch(event.text) if isinstance(event, Spoken) else None
        if claim and isinstance(event, Spoken):
            self._claims.setdefault(event.player, set()).add(int(claim[1]))

    def _choose(self, legal: ActionSet) -> Action:
        choosers: dict[type[Action], Callable[[Sequence[int]], int]] = {
            NightKill: self._kill,
            Inspect: self._inspect,
            Protect: self._protect,
            DayVote: self._vote,
            ShootPlayer: self._shoot,
        }
        targets = {
            action.seat: action
            for action in legal
            if isinstance(action, NightKill | Inspect | Protect | DayVote | ShootPlayer)
        }
        if targets:
            choose = choosers[type(legal[0])]
            return targets[choose(sorted(targets))]
        # Silence at night: the rule for ties makes the wolves agree.
        return self._speak() if legal.speech and self._notes.is_day else PASS

    # Actions at night and shots: each returns one of the given seats

    def _kill(self, seats: Sequence[int]) -> int:
        return self._best(seats, lambda seat: float(seat in self._claims))

    def _inspect(self, seats: Sequence[int]) -> int:
        exact = self._notes.posterior.probabilities(PACK)
        suspicion = self._suspicion(self._notes)
        # A certain answer teaches nothing.
        return self._best(seats, lambda seat: suspicion[seat] if 0 < exact[seat] < 1 else -1.0)

    def _protect(self, seats: Sequence[int]) -> int:
        seer = self._notes.posterior.probabilities((SEER,))
        own = self.player

        def value(seat: int) -> float:
            # A claimant is the likeliest victim; the doctor is the next best player to keep.
            return 2.0 if seat in self._claims and seer[seat] else float(seat == own)

        return self._best(seats, value)

    def _shoot(self, seats: Sequence[int]) -> int:
        suspicion = self._suspicion(self._notes)
        return self._best(seats, lambda seat: suspicion[seat])

    # By day

    def _vote(self, seats: Sequence[int]) -> int:
        scores = self._scores(seats)
        return self._best(seats, lambda seat: scores[seat])

    def _speak(self) -> Action:
        """Make a statement: what the seer has found, or a suspicion."""
        seats = [seat for seat in self._notes.living if seat != self.player]
        wolves = [seat for seat in seats if self._notes.inspected.get(seat)]
        # The wolf with the lowest seat pretends to be the seer, while that is new and possible.
        is_first = self._is_wolf and self.player < min(self._pack, default=self.player + 1)
        if is_first and not self._claims and SEER not in self._notes.roles.values():
            wolves = [seat for seat in seats if seat not in self._pack]
            self._rng.shuffle(wolves)
        if wolves:
            return Say(f"I am the seer. Player {wolves[0]} is a werewolf.")
        return Say(f"I suspect Player {self._vote(seats)}.")

    def _scores(self, seats: Iterable[int]) -> dict[int, float]:
        """Return how strongly each seat should be eliminated."""
        mentions = Counter(
            int(found[1])
            for event in self._notes.statements
            if event.player != self.player and (found := _SUSPICION.fullmatch(event.text))
        )
        # A wolf votes as the village does, but spares its pack while that does not show.
        suspicion = self._suspicion(self._public if self._is_wolf else self._notes)
        return {
            seat: suspicion[seat]
            + MENTION * mentions[seat] * (suspicion[seat] > 0)
            - LOYALTY * (seat in self._pack)
            for seat in seats
        }

    @property
    def _is_wolf(self) -> bool:
        return self._notes.role == WOLF

    @property
    def _pack(self) -> set[int]:
        """The living other wolves, if this player is one."""
        return set(self._notes.pack).intersection(self._notes.living)

    def _suspicion(self, notes: WerewolfNotes) -> tuple[float, ...]:
        """Return the probability that each seat is a wolf, by exact knowledge, votes and claims."""
        sets, prior = notes.posterior.teams(PACK)
        weights = prior.copy()
        # The wolves know each other: they seldom vote against each other.
        for event in notes.votes:
            for voter, vote in enumerate(event.votes):
                if vote != NO_SEAT and voter != self.player:
                    ratio = np.where(sets[:, vote], BETRAYAL, FRAMING)
                    weights *= np.where(sets[:, voter], ratio, 1.0)
        seer = notes.posterior.probabilities((SEER,))
        honest = np.zeros(len(sets), np.int64)
        for claimant, named in self._claims.items():
            honest += ~sets[:, claimant]
            true_claim = TRUE_CLAIM if seer[claimant] else BLUNDER
            for seat in named:
                weights *= np.where(
                    sets[:, seat],
                    np.where(sets[:, claimant], TREASON, true_claim),
                    np.where(sets[:, claimant], LIE, BLUNDER),
                )
        # There is only one seer.
        weights *= np.where(honest > 1, BLUNDER, 1.0)
        shares = weights @ sets / weights.sum()
        return tuple(map(float, shares))

    def _best(self, seats: Sequence[int], value: Callable[[int], float]) -> int:
        """Return a seat of the highest value; ties are drawn."""
        values = {seat: value(seat) for seat in seats}
        highest = max(values.values())
        return self._rng.choice([seat for seat in seats if values[seat] >= highest - 1e-9])
