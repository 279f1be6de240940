"""Expert: the actions of a stronger player at decisions that the learner itself has reached.

The learner plays and the expert labels its positions (DAgger: Ross et al. 2011, arXiv:1011.0686);
with `search` the labels come from a search by exact knowledge (expert iteration: Anthony et al.
2017, arXiv:1705.08439). Labels are computed where the game was played, after its end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.chat import Attempt
from arena.agents.notebook import split_entry
from arena.agents.seating import bot_names, make_agent
from arena.core.action import CHANCE, Action, Step
from arena.core.analysis import GameAnalysis
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.state import State
from arena.episodes.record import Episode
from trainers.rollouts.notebook import ExactNotebook
from trainers.trajectory import recorded_attempts

SEARCH = "search"
WORLDS = 12
"""Worlds in which the search plays out each candidate."""
MOST_CANDIDATES = 12
"""In a position with more legal actions the search compares only those that bots propose."""


@dataclass(frozen=True, slots=True)
class Label:
    """Answer of the expert at a decision of the learner."""

    action: Action
    notes: str | None = None
    """The right notebook entry, empty if none is due; None: the learner keeps no notebook."""


@dataclass(frozen=True, slots=True)
class Expert:
    """Labels decisions; picklable, for workers."""

    spec: str
    """A bot, or `search`."""
    share: float
    """Share of the decisions that are labelled, drawn at random."""

    @classmethod
    def parse(cls, spec: str, share: float, game: Game) -> Expert:
        """Return the expert of the setting `expert`. Raises UsageError."""
        if spec == SEARCH:
            analysis = type(game.analysis)
            if analysis.resample is GameAnalysis.resample and game.analysis.knowledge(0) is None:
                raise UsageError(
                    f"expert=search: {game.name} has no exact knowledge to search by; name one "
                    f"of its bots: {', '.join(f'bot:{name}' for name in bot_names(game.name))}"
                )
        elif not spec.startswith("bot:"):
            raise UsageError(
                f"expert={spec}: the expert is `search` or a bot, for example bot:NAME"
            )
        else:
            try:
                make_agent(spec, Seat(game, 0, random.Random(0)))
            except UsageError as error:
                raise UsageError(f"expert={spec}: {error}") from None
        return cls(spec, share)

    def labels(self, game: Game, episode: Episode, seat: int) -> dict[int, Label]:
        """Return the expert's answers at some decisions of a seat, by ply.

        A learner that keeps a notebook gets the right entry too.
        Labels depend on the episode only. Raises ArenaError if a bot fails.
        """
        header = episode.header
        seed = header.seed if header.agents_seed is None else header.agents_seed
        rng = stream(seed, f"expert {seat}")
        state, history, found = game.initial_state(), list[Step](), dict[int, Label]()
        bot = None
        if self.spec != SEARCH:
            bot = make_agent(self.spec, Seat(game, seat, stream(seed, f"expert bot {seat}")))
        # The first request for each decision of a model.
        requests = {
            ply.number: Attempt.model_validate(first)
            for ply in episode.plies
            for first in recorded_attempts(ply.decision)[:1]
            if ply.player == seat
        }
        writes = any(split_entry(one.reply)[0] for one in requests.values())
        notebook = ExactNotebook(game, seat) if writes else None
        for ply in episode.plies:
            action, legal = ply.decision.action, state.legal_actions(ply.player)
            request = requests.get(ply.number)
            if ply.player == seat and not legal.is_forced and rng.random() < self.share:
                if bot is not None:
                    advised = act_now(bot, state.observe(seat)).action
                else:
                    search = Search(game, seat, header.players, header.max_turns)
                    advised = search.best(history, state, action, rng)
                found[ply.number] = Label(advised)
            if request and notebook:
                if request.kept < 2:  # A chat that goes on shares more than the system message.
                    notebook.forget()
                entry = notebook.entry(state.observe(seat))
                if ply.number in found:
                    found[ply.number] = Label(advised, entry)
                notebook.read(request.reply)
            history.append(Step(ply.player, action))
            state.apply(ply.player, action)
        return found


@dataclass(frozen=True, slots=True)
class Search:
    """Plays candidates out in worlds that the seat cannot tell from the true one.

    Bots of the table play on as themselves; in place of models the game's own bot does. Each world
    and its draws are the same for all candidates (common random numbers).
    """

    game: Game
    seat: int
    players: Sequence[str]
    max_turns: int | None
    worlds: int = WORLDS

    def best(
        self, history: Sequence[Step], state: State, own: Action, rng: random.Random
    ) -> Action:
        """Return the candidate with the highest mean return; the learner's own if it is as good."""
        candidates = list(dict.fromkeys([own, *self._proposals(state, rng)]))
        if len(candidates) == 1:
            return own
        totals = dict.fromkeys(candidates, 0.0)
        for _ in range(self.worlds):
            # None: the game hides nothing, so that the true position is the only one.
            world = self.game.analysis.resample(history, self.seat, rng) or history
            seed = rng.getrandbits(62)
            for action in candidates:
                totals[action] += self._play_out(world, action, seed)
        # `max` returns the first of equals.
        return max(candidates, key=totals.__getitem__)

    def _proposals(self, state: State, rng: random.Random) -> Iterator[Action]:
        """Yield all legal actions, or if there are many those of the game's bots."""
        observation = state.observe(self.seat)
        if len(observation.legal_actions) <= MOST_CANDIDATES:
            yield from observation.legal_actions
            return
        for name in bot_names(self.game.name):
            if name != "random":
                seat = Seat(self.game, self.seat, random.Random(rng.getrandbits(62)))
                yield act_now(make_agent(f"bot:{name}", seat), observation).action

    def _play_out(self, world: Sequence[Step], action: Action, seed: int) -> float:
        """Return the seat's return in this world after an action."""
        state = self.game.initial_state()
        for step in world:
            state.apply(step.player, step.action)
        state.apply(self.seat, action)
        bot_of = cache(partial(self._substitute, seed=seed))
        play_on(state, bot_of, stream(seed, "chance"), self.max_turns)
        return state.returns()[self.seat]

    def _substitute(self, player: int, seed: int) -> Agent:
        spec = self.players[player]
        if not spec.startswith("bot:"):
            spec = f"bot:{self.game.default_bots[0]}"
        return make_agent(spec, Seat(self.game, player, stream(seed, f"agent {player}")))


def play_on(
    state: State, bot_of: Callable[[int], Agent], chance: random.Random, limit: int | None
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
