"""The values of the moves of a position: exact, by what the moving seat saw, and only for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from web_viewer import record

from arena.episodes.replay import Replay, read_replay
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.questions import QuestionValues
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import CluedoSetting
from replays.analysis.assessments import MOST_MOVES
from replays.analysis.documents import RankingJson
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.timeline import ranks_moves


@pytest.fixture(scope="module")
def clue(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    folder = tmp_path_factory.mktemp("moves")
    return read_replay(record(folder, "clue", 4, "cluedo", variant="cards", players=3))


@pytest.fixture(scope="module")
def analysis(clue: Replay) -> ReplayAnalysis:
    return ReplayAnalysis(clue)


def questions(analysis: ReplayAnalysis) -> list[int]:
    plies = analysis.timeline()["plies"]
    return [ply["ply"] for ply in plies if str(ply["action"]).startswith("suggest")]


def ranking(analysis: ReplayAnalysis, position: int, moves: str) -> RankingJson:
    document = analysis.moves(position)
    assert document is not None and document["position"] == position
    (found,) = (each for each in document["rankings"] if each["moves"] == moves)
    return found


def triple_of(action: str) -> Triple:
    return Triple(*action.partition(" ")[2].split(", "))


def test_questions_have_the_exact_values_that_follow_from_what_the_seat_saw(
    clue: Replay, analysis: ReplayAnalysis
) -> None:
    game = clue.make_game()
    assert isinstance(game, CluedoSetting)
    position = questions(analysis)[3]
    player = analysis.timeline()["plies"][position]["player"]
    assert player is not None
    knowledge = CluedoKnowledge(game, player)
    for walked in clue.walk():
        if walked.ply.number < position:
            for event in walked.ply.events:
                if event.seen_by(player):  # Nothing that is hidden from this seat.
                    knowledge.update(event)
    values = QuestionValues(knowledge)
    every = sorted((values.bits(triple) for triple in game.deck.triples), reverse=True)
    found = ranking(analysis, position, "questions")
    assert found["count"] == len(every) and found["unit"] == "bits"
    assert len(found["best"]) == MOST_MOVES
    assert found["best"][0]["value"] == pytest.approx(every[0])
    rank = 0
    for each in found["best"]:
        assert each["value"] == pytest.approx(every[rank]), "the next distinct value"
        assert values.bits(triple_of(each["action"])) == pytest.approx(each["value"])
        rank += 1 + each["alike"]
    played = found["played"]
    assert played is not None
    assert played["action"] == analysis.timeline()["plies"][position]["action"]
    bits = values.bits(triple_of(played["action"]))
    assert played["value"] == pytest.approx(bits)
    assert played["rank"] == 1 + sum(other > bits + 1e-9 for other in every)
    accusation = ranking(analysis, position, "accusations")
    assert accusation["played"] is None and accusation["unit"] == "%"
    likeliest, share = next(iter(knowledge.envelopes().items()))
    assert accusation["best"][0]["value"] == pytest.approx(share)
    if not accusation["best"][0]["alike"]:
        assert triple_of(accusation["best"][0]["action"]) == likeliest


def test_only_the_seat_that_moves_gets_them(analysis: ReplayAnalysis) -> None:
    plies = analysis.timeline()["plies"]
    position = questions(analysis)[0]
    player = plies[position]["player"]
    for seat in range(3):
        found = analysis.moves(position, seat)
        assert (found is not None) == (seat == player)
    assert analysis.moves(0) is None, "the deal"
    assert analysis.moves(len(plies)) is None and analysis.moves(-1) is None


def test_the_order_of_requests_does_not_matter(clue: Replay, analysis: ReplayAnalysis) -> None:
    other = ReplayAnalysis(clue)
    positions = range(len(analysis.timeline()["plies"]))
    backwards = {position: other.moves(position) for position in reversed(positions)}
    assert backwards == {position: analysis.moves(position) for position in positions}


def test_games_declare_what_is_ranked(tmp_path: Path) -> None:
    ships = ReplayAnalysis(read_replay(record(tmp_path, "ships", 2, "battleship")))
    document = ships.moves(len(ships.timeline()["plies"]) - 1)
    assert document is not None
    names = [each["moves"] for each in document["rankings"]]
    assert names == ["shots by chance of a hit"]
    assert all(each["played"] for each in document["rankings"])
    assert ships.timeline()["game"]["has_rankings"]
    cards = read_replay(record(tmp_path, "kuhn", 2))
    assert not ranks_moves(cards.make_game())
    assert ReplayAnalysis(cards).moves(2) is None
