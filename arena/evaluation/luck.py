"""Luck of a game: the part of each return that known probabilities explain, by AIVAT.

At a move whose probabilities pi are known (of chance, or of a bot that states them), the action a
was luckier than expected by

    q(h, a) - sum_b pi(b) q(h, b),

where h is the position and q the game's estimate of the returns (`Game.action_values`). Given all
that happened before, the mean of this term is 0, whatever q is and however the other players play;
so is the mean of the sum over a game, its luck x. Therefore E[y - beta x] = E[y] for the return y
and a coefficient that does not depend on this game: nothing is assumed and no bias is possible. The
better q is, the more of the variance of y does x explain.

Sources: Zinkevich, Bowling, Bard, Kan and Billings 2006, "Optimal unbiased estimators for
evaluating agent performance", AAAI (chance); Burch, Schmid, Moravcik, Morrill and Bowling 2018,
"AIVAT: a new variance reduction technique for agent evaluation in imperfect information games",
AAAI (players with known policies too).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from arena.agents.agent import KnownPolicy, Seat
from arena.agents.seating import make_agent
from arena.core.action import CHANCE, Action
from arena.core.errors import ArenaError
from arena.core.game import Game, State
from arena.core.ply import Ply
from arena.core.spec import Spec
from arena.episodes.record import Episode
from arena.evaluation.exploitability import probabilities


class Luck(NamedTuple):
    """Luck of one seat in its return; each part has mean 0. 0 also means that none is known."""

    own: float = 0.0
    """By the draws of its own bot."""
    others: float = 0.0
    """By chance and by the draws of the other bots."""


def luck_of(game: Game, episode: Episode, seat: int) -> Luck:
    """Return the luck of a seat in a game that was played from its beginning.

    Raises ArenaError if a bot states probabilities that its moves contradict.
    """
    # Without values there is no luck to take out, and applying the moves again would take time.
    if type(game).action_values is Game.action_values:
        return Luck()
    own, others, state = 0.0, 0.0, game.initial_state()
    policies = _known_policies(game, episode)
    for ply in episode.plies:
        action, chances = ply.decision.action, _chances(state, ply, policies)
        values = game.action_values(state, chances) if len(chances) > 1 else None
        if values:
            expected = math.fsum(chance * values[a][seat] for a, chance in chances.items())
            surplus = values[action][seat] - expected
            own += surplus if ply.player == seat else 0.0
            others += 0.0 if ply.player == seat else surplus
        state.apply(ply.player, action)
    return Luck(own, others)


def _known_policies(game: Game, episode: Episode) -> dict[int, KnownPolicy]:
    """Return a fresh bot for each seat whose bot states its probabilities."""
    header, bots = episode.header, dict[int, KnownPolicy]()
    for player, spec in enumerate(header.players):
        # Only bots: to make a model's agent may need a server.
        if Spec.parse(spec).prefix == "bot":
            # The generator is not used: the probabilities are those before a draw.
            seat = Seat(game, player, Random(0), header.text_level, turn_limit=header.max_turns)
            bot = make_agent(spec, seat)
            if isinstance(bot, KnownPolicy):
                bots[player] = bot
    return bots


def _chances(state: State, ply: Ply, policies: Mapping[int, KnownPolicy]) -> dict[Action, float]:
    """Return the probabilities of a move, of the possible actions only; {} if they are unknown."""
    player, action = ply.player, ply.decision.action
    if player == CHANCE:
        try:
            return {each.action: each.probability for each in state.chance_outcomes()}
        except NotImplementedError:
            return {}  # Too many to list.
    # A fallback is not drawn from the bot's policy.
    if player not in policies or ply.decision.failure is not None:
        return {}
    chances = probabilities(policies[player].probabilities, state.observe(player))
    if action not in chances:
        raise ArenaError(
            f"{state.game.name}: ply {ply.number}: {type(policies[player]).__name__} played "
            f"'{action}', to which its `probabilities` give 0; correct the bot"
        )
    return chances
