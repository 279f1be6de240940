"""Bots of Werewolf: by the exact posterior, weighted by votes and statements; and a crowd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet, Decision, Event, Observation, Say, Seat, Spoken
from games.hidden_roles.notes import Worlds
from games.hidden_roles.rules import PASS, ClaimCheck, ClaimRole, Suspect
from games.hidden_roles.talk import RoleBot
from games.werewolf.notes import WerewolfNotes
from games.werewolf.rules import (
    NO_SEAT,
    PACK,
    SEER,
    VILLAGER,
    WOLF,
    WOLVES,
    DayVote,
    DayVoted,
    Inspect,
    NightKill,
    Protect,
    Werewolf,
)

VOTE_RATES: Mapping[tuple[str, str, bool], float] = {
    **{("expected", VILLAGER, wolf): 0.85 for wolf in (True, False)},
    **{("other", VILLAGER, wolf): 0.05 for wolf in (True, False)},
    **{("expected", SEER, True): 0.9, ("expected", SEER, False): 0.6},
    **{("other", SEER, True): 0.4, ("other", SEER, False): 0.03},
    **{("expected", WOLF, True): 0.4, ("expected", WOLF, False): 0.7},
    **{("other", WOLF, True): 0.05, ("other", WOLF, False): 0.2},
}
"""Assumed rates of votes, by whether all public knowledge made the vote expected, the role of the
voter and whether the target is a wolf. The seer knows wolves, and wolves spare each other."""
TARGETED = NightKill | Inspect | Protect | DayVote
"""Kinds of actions that name the seat to act on."""
SLACK = 0.05
"""Difference of suspicion below which the village keeps to the vote that all expect."""
MENTION = 0.05
"""Weight of one suspicion that another player states, as a probability."""
TRUE_CLAIM, TREASON, LIE, BLUNDER = 1.0, 0.02, 0.3, 0.01
"""Assumed rates at which players claim to be the seer and name a seat: the seer a wolf, a wolf a
wolf, a wolf another player, and a mistake of the village."""
WOLF_SIDE = Werewolf.sides[WOLVES]


def in_words(statement: ClaimCheck | Suspect) -> Say:
    """Return what bots say in place of a statement, without the option `talk=statements`."""
    if isinstance(statement, Suspect):
        return Say(f"I suspect Player {statement.seat}.")
    return Say(f"I am the seer. Player {statement.seat} is a werewolf.")


class WerewolfDeducer(RoleBot):
    """Bot that votes for the probable wolf; the seer reports a wolf, and the wolves hunt the seer.

    Braverman, Etesami and Mossel (2008) show that a village with a seer wins by pooling what it
    knows. Here all vote for the seat that is most suspicious by the exact posterior, weighted by
    votes and by claims to be the seer. The village's votes are predictable: among seats that are
    nearly equally suspicious, the one that is most suspicious by public knowledge, the lowest
    first. So another vote is evidence: the voter is the seer and has found a wolf, or is a wolf.

    Without talk, 7 players, 200 equal deals each: this village wins 50 % against random wolves, 44
    ± 8 points more than a village of random bots; against its own wolves 24 %, 20 ± 6 more.
    """

    game: Werewolf
    _notes: WerewolfNotes
    _public: WerewolfNotes

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._claims: dict[int, set[int]] = {}
        """Wolves that each player who claims to be the seer has named."""
        statements = ((ClaimCheck(n, WOLF_SIDE), Suspect(n)) for n in range(self.game.num_players))
        self._sentences = {in_words(each).text: each for pair in statements for each in pair}
        self._expected: list[Sequence[int]] = []
        """Living seats at each vote of the past, in the order in which all expected votes."""

    def _witness(self, event: Event) -> None:
        if isinstance(event, DayVoted):
            self._expected.append(self._public_order())
        super()._witness(event)
        # Who weighs claims by their rates does not count them once more.
        if not isinstance(event, Spoken) or self._makes_claims:
            return
        for statement in self._statements(event):
            if statement == ClaimRole(SEER):
                self._claims.setdefault(event.player, set())
            elif isinstance(statement, ClaimCheck) and statement.side == WOLF_SIDE:
                self._claims.setdefault(event.player, set()).add(statement.seat)

    def _statements(self, event: Spoken) -> Sequence[Action]:
        """Return the statements of a speech to all."""
        if event.to is not None:
            return ()
        said = self._sentences.get(event.text)
        return self.game.actions.attached(event.text) if said is None else (said,)

    def _choose(self, legal: ActionSet) -> Action:
        targets = {action.seat: action for action in legal if isinstance(action, TARGETED)}
        if targets:
            seats = sorted(targets)
            chosen = self._vote(seats) if legal.of(DayVote) else self._aim(type(legal[0]), seats)
            return targets[chosen]
        # Silence at night: the rule for ties makes the wolves agree.
        return self._speak() if legal.speech and self._notes.is_day else PASS

    def _aim(self, kind: type[Action], seats: Sequence[int]) -> int:
        """Return the seat for an action at night."""
        role = SEER if kind in (NightKill, Protect) else WOLF
        likely = self._probabilities(role, self._notes)
        exact = self._notes.probabilities(PACK)
        values: dict[type[Action], Callable[[int], float]] = {
            NightKill: lambda seat: likely[seat] + (seat in self._claims),
            # A certain answer teaches nothing.
            Inspect: lambda seat: likely[seat] if 0 < exact[seat] < 1 else -1.0,
            # A probable seer is the likeliest victim; the doctor is the next best player to keep.
            Protect: lambda seat: max(likely[seat], 0.4 * (seat == self.player)),
        }
        return self._best(seats, values[kind])

    # By day

    def _vote(self, seats: Sequence[int]) -> int:
        scores = self._scores(seats)
        good = (seat for seat in seats if scores[seat] >= max(scores.values()) - SLACK)
        return min(good, key=self._public_order().index)

    def _public_order(self) -> Sequence[int]:
        """Return the living seats, the most suspicious by public knowledge first."""
        suspicion = self._probabilities(WOLF, self._public)
        return sorted(self._public.living, key=lambda seat: (-round(suspicion[seat], 6), seat))

    def _speak(self) -> Action:
        """Make a statement: what the seer has found, or a suspicion."""
        if self._makes_claims:
            return self._claim(self._notes.living)
        seats = [seat for seat in self._notes.living if seat != self.player]
        wolves = [seat for seat in seats if self._notes.inspected.get(seat)]
        if wolves:
            statement: ClaimCheck | Suspect = ClaimCheck(wolves[0], WOLF_SIDE)
        else:
            scores = self._scores(seats)
            statement = Suspect(self._best(seats, lambda seat: scores[seat]))
        return statement if self.game.actions.statements else in_words(statement)

    def _scores(self, seats: Sequence[int]) -> dict[int, float]:
        """Return how strongly each seat should be eliminated."""
        mentions = Counter(
            statement.seat
            for event in self._notes.spoken
            if event.player != self.player
            for statement in self._statements(event)
            if isinstance(statement, Suspect)
        )
        # A wolf votes as all expect, against its pack too: other votes would give it away.
        is_wolf = self._notes.role == WOLF
        suspicion = self._probabilities(WOLF, self._public if is_wolf else self._notes)
        return {
            seat: suspicion[seat] + MENTION * mentions[seat] * (suspicion[seat] > 0)
            for seat in seats
        }

    def _probabilities(self, role: str, notes: WerewolfNotes) -> Sequence[float]:
        """Return the probability that each seat has a role: exact worlds weighted by behaviour."""
        weights = self._weights(notes)
        return [*map(float, self._has(role, notes.worlds) @ weights / weights.sum())]

    def _has(self, role: str, worlds: Worlds) -> NDArray[np.bool_]:
        """Return which seats have a role in which assignments: shape (seats, worlds)."""
        names = self.game.distinct_roles
        # No seat has the index -1, so a role that is not in the game has no seat.
        found: NDArray[np.bool_] = worlds == (names.index(role) if role in names else -1)
        return found

    def _weights(self, notes: WerewolfNotes) -> NDArray[np.float64]:
        """Return the likelihood (worlds,) of votes and claims in each possible assignment."""
        worlds = notes.worlds
        wolf, seer = self._has(WOLF, worlds), self._has(SEER, worlds)
        weights = np.ones(worlds.shape[1])
        for event, order in zip(notes.votes, self._expected, strict=True):
            for voter in set(order).difference((notes.player,)):
                vote = event.votes[voter]
                expected = next(seat for seat in order if seat != voter)
                kind = "expected" if vote == expected else "other"
                target = wolf[vote] if vote != NO_SEAT else np.zeros_like(weights, np.bool_)
                rates = [
                    np.where(target, VOTE_RATES[kind, its, True], VOTE_RATES[kind, its, False])
                    for its in (WOLF, SEER, VILLAGER)
                ]
                weights *= np.where(wolf[voter], rates[0], np.where(seer[voter], *rates[1:]))
        for claimant, named in self._claims.items():
            for seat in named:
                lie = np.where(wolf[seat], TREASON, LIE)
                truth = np.where(wolf[seat] & seer[claimant], TRUE_CLAIM, BLUNDER)
                weights *= np.where(wolf[claimant], lie, truth)
        return weights

    def _best(self, seats: Sequence[int], value: Callable[[int], float]) -> int:
        """Return a seat of the highest value; ties are drawn."""
        values = {seat: value(seat) for seat in seats}
        highest = max(values.values())
        return self._rng.choice([seat for seat in seats if values[seat] >= highest - 1e-9])


class WerewolfCrowd:
    """Bot that knows nothing: by day all vote for the lowest number, at night each draws.

    Roles are dealt at random, so the village eliminates a player at random. This is the play of P.
    Migdał, "A mathematical model of the Mafia game" (2010), arXiv:1009.1031: a village that wins
    less often is worse than chance. It makes no statements.
    """

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        votes = legal.of(DayVote)
        if votes:
            return Decision(min(votes, key=lambda vote: vote.seat))
        return Decision(PASS if PASS in legal else self._rng.choice(legal))


class WerewolfTalker(WerewolfDeducer):
    """Deducer that makes true claims, by the model of `RoleBot`.

    Without the option `talk=statements` all of these bots talk as the deducer.
    """

    lie_rates = (0.0, 0.0)


class WerewolfDeceiver(WerewolfTalker):
    """Makes, as a wolf, the claim that moves a listener of level 1 furthest from its pack."""

    deceives = True


class WerewolfSceptic(WerewolfDeceiver):
    """Listens as a Bayesian who expects each side to lie at its rate."""

    def _weights(self, notes: WerewolfNotes) -> NDArray[np.float64]:
        return super()._weights(notes) * self.listener.weights(notes.worlds)
