"""Reports of results files, also while a run is adding games, and comparisons of two of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.evaluation.aggregation import EvaluationAggregator, TournamentAggregator
from arena.evaluation.paired import compare
from arena.evaluation.records import GameResult
from arena.evaluation.report import PairedComparison, Report
from arena.evaluation.schedule import stopping_notes
from arena.evaluation.scoring import check_returns
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.store.results import Results
from arena.plugins.loader import make_game


def stored_report(results: Results) -> Report:
    """Return the report of the games at the start of the schedule that are finished.

    A game counts once all games before it are finished: short games finish first, so the games
    that happen to be finished are not a fair sample of the schedule.

    Raises:
        ArenaError: The file cannot be read, or its game is not installed.
    """
    experiment, progress = results.experiment, results.progress()
    game, settings = stored_game(results), experiment.settings
    aggregator: EvaluationAggregator | TournamentAggregator
    if experiment.kind == "eval":
        player, baseline = str(settings.get("player")), settings.get("baseline")
        against = settings.get("against")
        names = [str(name) for name in against] if isinstance(against, list) else []
        aggregator = EvaluationAggregator(
            game, player, str(baseline) if baseline else None, against=names
        )
    else:
        aggregator = TournamentAggregator(game, progress.players)
    for result in _first_games(results, game):
        aggregator.add(result)
    stopping = list(stopping_notes(aggregator.games, progress.planned, progress.looks))
    if isinstance(aggregator, EvaluationAggregator):
        aggregator.any_time = bool(stopping)
    if not aggregator.games:
        raise ArenaError(f"{results.path}: no game is finished yet")
    report = aggregator.report()
    seed = settings.get("seed")
    return report.model_copy(
        update={
            "notes": [*report.notes, *stopping],
            "seed": seed if isinstance(seed, int) else None,
            "settings": dict(settings),
        }
    )


def stored_game(results: Results) -> Game:
    """Return the game of a results file. Raises UsageError if it is not installed."""
    experiment = results.experiment
    return make_game(experiment.game, **experiment.options)


def _first_games(results: Results, game: Game) -> Iterator[GameResult]:
    for number, result in enumerate(results.games()):
        if result.slot.number != number:
            return
        returns = (seat.returns for seat in result.seats)
        check_returns(game, returns, f"{results.path}, game {number}")
        yield result


@dataclass(frozen=True, slots=True)
class SharedGames:
    """Two evaluations of one game, on the deals that both have played in the same seat."""

    first: Sample
    """The player of the first evaluation, with a row for each shared deal."""
    second: Sample
    """The player of the second, on the same deals in the same order."""
    same_opponents: bool
    comparison: PairedComparison | None
    """The first minus the second; None with fewer than two shared deals."""


def compare_evaluations(first: Results, second: Results) -> SharedGames | None:
    """Compare the players of two evaluations on the deals that both have.

    Returns None if the games or their options differ, since their deals then differ too.

    Raises:
        ArenaError: A file cannot be read, or the game is not installed.
    """
    game = stored_game(first)
    other_game = stored_game(second)
    if (game.name, game.options) != (other_game.name, other_game.options):
        return None
    one, other = (_player_games(results, game) for results in (first, second))
    shared = [place for place in one if place in other]
    samples = Sample(_player(first)), Sample(_player(second))
    for sample, games in zip(samples, (one, other), strict=True):
        for place in shared:
            sample.games += 1
            sample.add(games[place], place[1], game.return_scale)
    tables = [[_opponents(games[place]) for place in shared] for games in (one, other)]
    return SharedGames(
        *samples,
        same_opponents=tables[0] == tables[1],
        comparison=compare(game, *samples) if len(shared) > 1 else None,
    )


def _player(results: Results) -> str:
    return str(results.experiment.settings.get("player"))


def _player_games(results: Results, game: Game) -> dict[tuple[int, int], GameResult]:
    """Return the games of the player under test, by deal and seat, in the order of the schedule."""
    games = {}
    for result in _first_games(results, game):
        seat = result.slot.seat
        if result.slot.role == "player" and seat is not None:
            games[result.slot.seed, seat] = result
    return games


def _opponents(result: GameResult) -> list[str]:
    return [spec for seat, spec in enumerate(result.slot.specs) if seat != result.slot.seat]
