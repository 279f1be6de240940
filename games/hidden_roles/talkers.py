"""Voices of talking bots: which claim a seat makes, and how it believes the claims of others.

The model of talk is stated, so that measures of talk can be checked against it:

- A seat chooses among the claims "Player N is (not) of the minority" about all living seats whose
  truth it knows for certain. With the lie rate of its side it draws one that is false, else one
  that is true.
- A strategic seat of the minority makes the claim after which a listener of level 1 with public
  knowledge suspects its side least.
- A listening seat weighs the roles that are possible by its exact knowledge with the likelihood of
  the claims (`Listener`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from arena import Event, Say, Spoken
from arena.core.claims import Claim
from arena.evaluation.talk.reader import ClaimReader
from games.hidden_roles.game import HiddenRolesGame
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk import LEVEL1, Listener, RoleTalk, talker_rates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


EXPECTED = (0.0, 0.9)
"""Lie rates that a listening bot expects: an honest majority, and a minority that mostly lies."""


class Voice:
    """What one bot says, and what it has heard.

    Args:
        game: The game that is played.
        player: The seat of the bot.
        rng: Source of the draws.
        lie_rates: Share of lies among the claims of the majority, and of the minority.
        expected: Lie rates of the two sides that it expects of others.
    """

    def __init__(
        self,
        game: HiddenRolesGame,
        player: int,
        rng: random.Random,
        lie_rates: tuple[float, float] = (0.0, 0.0),
        expected: tuple[float, float] = EXPECTED,
    ) -> None:
        talk = game.talk
        assert isinstance(talk, RoleTalk), f"{game.name} has no talk"
        self.game, self.player, self.talk = game, player, talk
        self._rng, self._lie_rates = rng, lie_rates
        self._reader = ClaimReader(talk.vocabulary)
        self.listener = Listener(talk, talker_rates(expected, game.num_players))

    def hear(self, event: Event) -> None:
        """Add the claims of a public statement."""
        if isinstance(event, Spoken) and event.to is None:
            for claim in self._reader.read(event.text, event.player).claims:
                if event.player != self.player:
                    self.listener.hear(event.player, claim)

    def candidates(self, seats: Collection[int], knowledge: RolePosterior) -> dict[Claim, bool]:
        """Return the claims about sides whose truth the seat knows, and whether they are true."""
        claims = (
            Claim("identity", seat, self.talk.minority, holds)
            for seat in seats
            for holds in (True, False)
        )
        known = ((c, self.talk.probability(c, self.player, knowledge)) for c in claims)
        return {claim: bool(share) for claim, share in known if share in (0.0, 1.0)}

    def draw(self, seats: Collection[int], knowledge: RolePosterior, team: int) -> Say:
        """Draw a claim by the lie rate of a side; a true one if there is no other."""
        candidates = self.candidates(seats, knowledge)
        wanted = self._rng.random() >= self._lie_rates[team]
        chosen = [claim for claim, is_true in candidates.items() if is_true == wanted]
        return self.say(self._rng.choice(chosen or list(candidates)))

    def deceive(self, seats: Sequence[int], knowledge: RolePosterior, public: RolePosterior) -> Say:
        """Return the claim that leaves the least public suspicion of the own side; draw ties."""
        known = knowledge.probabilities(self.game.minority_roles)
        own = [seat for seat in seats if known[seat] == 1]
        values = {
            claim: -float(self._suspicion_after(claim, public)[own].sum())
            for claim in self.candidates(seats, knowledge)
        }
        best = max(values.values())
        return self.say(self._rng.choice([c for c, value in values.items() if value > best - 1e-9]))

    def _suspicion_after(self, claim: Claim, public: RolePosterior) -> NDArray[np.float64]:
        listener = Listener(self.talk, LEVEL1)
        listener.heard = [*self.listener.heard, (self.player, claim)]
        return listener.suspicion(public.worlds)

    def say(self, claim: Claim) -> Say:
        """Return a claim about a side in words."""
        name = {"Werewolf": "a werewolf"}.get(claim.content, claim.content)
        who = "I am" if claim.player == self.player else f"Player {claim.player} is"
        return Say(f"{who} {'' if claim.holds else 'not '}{name}.")
