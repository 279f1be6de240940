"""Value of decisions by rollouts: fixed bots play on from each position, with all cards open.

For a decision a of seat i in the true position h, let w(h, a; k) be 1 if the side of i wins when
bots play on after a, with the random streams k, and else 0; let b(k) be what the bot in seat i
chooses there. The value of the decision is the change of the winning probability of its side,

    value = mean over k of w(h, a; k) - w(h, b(k); k).

Both games of a difference have the same streams (common random numbers), so a choice that is the
bot's own counts as exactly 0. The value is relative to these bots: what fools them need not fool
others. It uses hidden cards, so that a good decision with bad luck has a negative value; its mean
over deals is what counts, and only viewers who see all cards may see it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from random import Random

import numpy as np
from pydantic import JsonValue

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.seating import default_bot, make_agent
from arena.core.action import CHANCE, Action
from arena.core.analysis import Assessment, Comment, Measure, WeightedSum
from arena.core.assessor import SeatAssessor
from arena.core.event import Ply
from arena.core.game import Game
from arena.core.outcome import Outcome
from arena.core.seeds import stream
from arena.core.state import State
from arena.episodes.match import outcome_of
from arena.episodes.record import Episode
from arena.evaluation.formatting import percent
from arena.evaluation.records import Interval
from arena.evaluation.statistics import clustered_mean

VALUE = "decision_value"
"""Kind of the assessments, and name of the measure; ` as ROLE`, ` as SIDE` and ` of ACTION` follow
for parts of the decisions."""


def rollout_bot(game: Game) -> str:
    """Return the SPEC of the bot that plays on."""
    return f"bot:{game.analysis.rollout_bot}" if game.analysis.rollout_bot else default_bot(game)


def sides_of(game: Game, roles: Sequence[str], teams: Sequence[int], seat: int) -> list[str]:
    """Return the role of a seat and the name of its team, where the game has them."""
    sides = [roles[seat]] if roles else []
    if teams and game.return_scale.team_names:
        sides.append(game.return_scale.team_names[teams[seat]])
    return sides


def play_on(
    state: State, bot_of: Callable[[int], Agent], chance: Random, limit: int | None
) -> None:
    """Play a game from its position to the end or to the turn limit, with a bot in each seat."""
    while state.to_act and (limit is None or state.turn <= limit):
        if state.to_act == (CHANCE,):
            state.apply(CHANCE, state.sample_chance(chance))
            continue
        # All decide before the first decision is applied: they may be simultaneous.
        decided = [
            (seat, act_now(bot_of(seat), state.observe(seat)).action) for seat in state.to_act
        ]
        for seat, action in decided:
            state.apply(seat, action)


class RolloutAssessor(SeatAssessor):
    """Assessor of the decisions of some players, None for all; its kind is `decision_value`.

    Each rollout costs up to two games from a position to the end. Equal seeds give equal values.
    """

    def __init__(
        self,
        game: Game,
        rollouts: int,
        seed: int,
        max_turns: int | None = None,
        players: Collection[int] | None = None,
    ) -> None:
        super().__init__(game, players)
        self._state, self._rollouts, self._seed = game.initial_state(), rollouts, seed
        self._game, self._limit = game, game.turn_limit(max_turns)

    def ply(self, ply: Ply) -> list[Assessment]:
        """Judge the next ply, if its seat had a choice."""
        player, action = ply.player, ply.decision.action
        judged = player in self._assessed and not self._state.legal_actions(player).is_forced
        found = [self._judge(ply.number, player, action)] if judged else []
        self._state.apply(player, action)
        return found

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return nothing: all decisions are judged during the game."""
        return []

    def _judge(self, number: int, player: int, action: Action) -> Assessment:
        found = [self._difference(number, k, player, action) for k in range(self._rollouts)]
        values = [value or 0.0 for value in found]
        bounds = -1.0, 1.0
        ends = Interval.of(clustered_mean(values, np.arange(len(values)), bounds=bounds))
        part = WeightedSum(float(np.mean(values)))
        sides = sides_of(self._game, self._state.roles(), self._state.teams(), player)
        kinds = (f" as {side}" for side in sides), (f" of {str(action).partition(' ')[0]}",)
        measured = {f"{VALUE}{kind}": part for kind in ("", *kinds[0], *kinds[1])}
        facts: dict[str, JsonValue] = {
            **ends.model_dump(exclude={"n"}),
            "rollouts": len(values),
            "differs": len(values) - found.count(None),
        }
        return Assessment(number, player, VALUE, facts, measured)

    def _difference(self, number: int, k: int, player: int, action: Action) -> float | None:
        """Return the difference of two games; None if the bot chooses the same action."""
        bot = self._seated(number, k)[player]
        chosen = act_now(bot, self._state.observe(player)).action
        if chosen == action:
            return None
        return float(self._wins(number, k, player, action) - self._wins(number, k, player, chosen))

    def _seated(self, number: int, k: int) -> list[Agent]:
        """Return fresh bots, which read all that their seats have witnessed when they are asked."""
        spec = rollout_bot(self._game)
        return [
            make_agent(spec, Seat(self._game, seat, self._stream(number, k, f"seat {seat}")))
            for seat in range(self._game.num_players)
        ]

    def _stream(self, number: int, k: int, purpose: str) -> Random:
        return stream(self._seed, f"rollout {number} {k} {purpose}")

    def _wins(self, number: int, k: int, player: int, action: Action) -> bool:
        """Return whether the side of a player wins a game that goes on with an action."""
        state, bots = self._state.clone(), self._seated(number, k)
        chance = self._stream(number, k, "chance")
        # Its draws are used up here in both games of a difference.
        act_now(bots[player], state.observe(player))
        state.apply(player, action)
        play_on(state, bots.__getitem__, chance, self._limit)
        return outcome_of(state, self._limit).is_winner(player)


def rollout_values(
    game: Game, episode: Episode, rollouts: int, players: Collection[int] | None
) -> Iterator[Assessment]:
    """Yield the assessments of a finished game."""
    header = episode.header
    assessor = RolloutAssessor(game, rollouts, header.seed, header.max_turns, players)
    for ply in episode.plies:
        yield from assessor.ply(ply)


def value_measures(names: Iterable[str]) -> Iterator[Measure]:
    """Yield the measures of values among these names."""
    for name in sorted(each for each in names if each.startswith(VALUE)):
        part = name.removeprefix(VALUE)
        about = (
            "Change of the winning probability of the own side by a decision, from that after the "
            "choice of a fixed bot, by rollouts with common random numbers and all cards open; "
            "over decisions."
        )
        yield Measure(name, f"value of decisions{part}", "share", "higher", about, -1.0, 1.0)


def comment_value(game: Game, assessment: Assessment) -> Comment:
    """Return the value of a decision as text, for viewers who see everything."""
    facts, bot = assessment.facts, rollout_bot(game)
    if not facts["differs"]:
        return Comment(f"The choice of {bot}.", omniscient=True)
    interval = Interval.model_validate({name: facts[name] for name in ("value", "low", "high")})
    return Comment(
        f"Changes the winning probability of its side by {percent(interval, signed=True)}, against "
        f"the choice of {bot} ({facts['rollouts']} rollouts).",
        omniscient=True,
    )
