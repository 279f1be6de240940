"""What people may start: a new game, or a branch of a replay."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from arena.agents.chat import ChatOptions
from arena.agents.names import HUMAN, person_spec
from arena.agents.seating import LEVELS, bot_names, default_bot, level_bot
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.spec import Spec, draw_seed
from arena.episodes.branch import position, turns_left
from arena.episodes.match import Match, act_out
from arena.episodes.replay import Replay
from arena.plugins.catalog import (
    OptionJson,
    catalog,
    game_class,
    game_family,
    make_game,
    options_of,
)
from replays.analysis.documents import GameFactsJson, SceneJson
from replays.analysis.scenes import new_scene
from replays.analysis.timeline import game_facts
from replays.web.exchange import ReplayForm
from replays.web.play.documents import HELP_LEVELS, Help
from replays.web.play.links import WebGameSetup


class GamePictureJson(GameFactsJson):
    """A position of a random game, which shows what its table looks like."""

    specs: list[str]
    position: SceneJson


class OfferedGameJson(TypedDict):
    """A game that can be chosen."""

    name: str
    title: str
    summary: str
    picture: GamePictureJson
    players: int
    """Seats with the default options; the option `players` changes it where there is one."""
    has_first_game: bool
    """There is a guided game."""
    bots: list[str]
    levels: dict[str, str]
    """SPEC of the bot of each level; a seat `level:fair` is taken by it."""
    options: list[OptionJson]


class FormJson(TypedDict):
    """What can be chosen for a new game."""

    games: list[OfferedGameJson]
    models: list[str]
    """SPECs of models that may take a seat."""
    help: list[Help]


class WebGameForm(BaseModel):
    """The answer to the form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    game: Annotated[str, Field(max_length=100)]
    options: Mapping[Annotated[str, Field(max_length=100)], JsonValue] = {}
    seats: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=64)]
    pace: Annotated[float, Field(ge=0, le=60)] = 0.7
    clock: Annotated[float, Field(ge=1, le=86_400)] | None = None
    help: Help = "posterior"
    guided: bool = False
    """Start the game's guided game, whose options and seats are fixed."""


class BranchForm(ReplayForm):
    """A request to play on from a position of a replay."""

    position: Annotated[int, Field(ge=0, le=10**6)]
    seat: Annotated[int, Field(ge=0, lt=64)]
    """The seat of the person; the others are played as in the replay where a bot did, and else
    by the bot that takes seats by default."""


@dataclass(frozen=True, slots=True)
class NewGames:
    """The games that the form offers, and the models that may take a seat."""

    models: Sequence[str] = ()
    chat: ChatOptions | None = None

    def form(self) -> FormJson:
        """Return what can be chosen; a game that cannot be loaded is left out."""
        games, names = [], list(catalog().names("game"))
        for family in catalog().names("game_family"):
            with suppress(ArenaError):
                names += [f"{family}/{board}" for board in game_family(family).boards]
        for name in names:
            try:
                games.append(_offered(name))
            except ArenaError:
                continue
        return {"games": games, "models": list(self.models), "help": list(HELP_LEVELS)}

    def setup(self, wanted: WebGameForm) -> WebGameSetup:
        """Return the game that the answer describes.

        Raises:
            UsageError: There is no such game, option or player.
        """
        if wanted.guided:
            return _first_game(wanted)
        game = make_game(wanted.game, **dict(wanted.options))
        if len(wanted.seats) != game.num_players:
            raise UsageError(
                f"seats: {game.name} has {game.num_players} here, and {len(wanted.seats)} are given"
            )
        specs = [_of_level(game, spec) for spec in wanted.seats]
        for seat, spec in enumerate(specs):
            self._check(seat, spec)
        has_models = any(spec in self.models for spec in specs)
        chat = self.chat if has_models else None
        match = Match(game, specs, seed=draw_seed(), chat=chat)
        return WebGameSetup(match, wanted.pace, wanted.clock, wanted.help)

    def branch(self, replay: Replay, wanted: BranchForm) -> WebGameSetup:
        """Return the game in which a person plays on from a position of a replay.

        Raises:
            UsageError: There is no such seat, or no player moves at this position.
            ReplayError: The replay does not fit the rules.
        """
        game, start = replay.make_game(), position(replay, wanted.position)
        if wanted.seat >= game.num_players:
            raise UsageError(f"seat {wanted.seat}: seats go from 0 to {game.num_players - 1}")
        specs = [
            spec if self._may_play(spec) else default_bot(game) for spec in replay.header.players
        ]
        specs[wanted.seat] = HUMAN
        match = Match(
            game,
            specs,
            seed=draw_seed(),
            text_level=replay.header.text_level,
            chat=self.chat if any(spec in self.models for spec in specs) else None,
            max_turns=turns_left(replay, start, game),
        )
        return WebGameSetup(match, start=start)

    def _may_play(self, spec: str) -> bool:
        # A page, or a replay, must not choose a model that costs money, or a program.
        return Spec.parse(spec).prefix == "bot" or spec in self.models

    def _check(self, seat: int, spec: str) -> None:
        parsed = Spec.parse(spec)
        if parsed.is_human:
            person_spec(parsed.rest)
        elif not self._may_play(spec):
            known = ", ".join([HUMAN, "bot:NAME", *self.models])
            raise UsageError(f"seat {seat}: '{spec}' may not play here; players are: {known}")


def _first_game(wanted: WebGameForm) -> WebGameSetup:
    guide = make_game(wanted.game).text.guide()
    first = guide.first_game if guide else None
    if first is None:
        raise UsageError(f"guided: {wanted.game} has no guided game")
    game = make_game(wanted.game, **dict(first.options))
    specs = [HUMAN, *[level_bot(game, first.level)] * (game.num_players - 1)]
    return WebGameSetup(Match(game, specs, seed=first.seed), wanted.pace, hints=first.hints)


def _of_level(game: Game, spec: str) -> str:
    """Return the SPEC of the bot that `level:NAME` means, and any other unchanged."""
    parsed = Spec.parse(spec)
    level = next((each for each in LEVELS if (parsed.prefix, parsed.rest) == ("level", each)), None)
    return level_bot(game, level) if level else spec


PLIES = 9
"""Plies of the games in the pictures, after which most tables have something on them."""


@lru_cache
def _picture(name: str) -> GamePictureJson:
    game = make_game(name)
    state, scene = game.initial_state(), new_scene(game, None)
    act_out(state, random.Random(1), PLIES)
    if scene:
        for event in state.log.events:
            scene.update(event)
    position = dict(scene.to_json()) if scene else None
    return {**game_facts(game), "specs": [""] * game.num_players, "position": position}


def _offered(name: str) -> OfferedGameJson:
    kind = game_class(name)
    game = make_game(name)
    guide = game.text.guide()
    return {
        "name": name,
        "title": game.title,
        "summary": game.summary,
        "picture": _picture(name),
        "players": game.num_players,
        "has_first_game": guide is not None and guide.first_game is not None,
        # The easy bot has its level, and the games with a better easy one have theirs.
        "bots": [f"bot:{bot}" for bot in bot_names(name) if bot != "easy"],
        "levels": {each: level_bot(game, each) for each in LEVELS},
        "options": options_of(kind),
    }
