"""The HTML file that is filmed."""

from __future__ import annotations

from arena import Replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.web.bundle import render

FILM_INDEX = "film.html"


def film_page(replay: Replay, seat: int | None) -> str:
    """Return a page with the documents of one perspective; None: everything open.

    Raises:
        ReplayError: The replay cannot be played.
    """
    analysis = ReplayAnalysis(replay)
    timeline = analysis.timeline(seat)
    players = range(len(replay.header.players)) if seat is None else [seat]
    posteriors = {str(player): analysis.posterior(player) for player in players}
    key = "open" if seat is None else str(seat)
    data = {"timelines": {key: timeline}, "posteriors": posteriors}
    return render(data, timeline["game"]["scene"], FILM_INDEX)
