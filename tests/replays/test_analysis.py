"""A analysis: what each perspective is told, and above all what it is not."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue
from scripted_table import SPEC, table
from studied import (
    END,
    Details,
    World,
    everything,
    known_analysis,
    known_game,
    lines,
    random_game,
    recorded,
)

from arena.agents.chat import Attempt
from arena.core.action import CHANCE, Step
from arena.core.game import Game
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Branch, DecisionLine, Header
from arena.episodes.replay import read_replay
from arena.plugins.catalog import make_game
from arena.testing.positions import random_positions, sampled_positions
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Show, Suggest
from games.goofspiel.game import BidsRevealed
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.sanitize import find_seeds, redact
from replays.analysis.timeline import players_at

GAMES = [
    make_game("cluedo", players=3, suspects=3, weapons=3, rooms=4),
    make_game("cluedo", variant="classic", players=3),
    make_game("kuhn_poker"),
    make_game("goofspiel", players=3, cards=3),
]

# What nobody may learn


def other_worlds(game: Game, seed: int) -> Iterator[tuple[ReplayAnalysis, ReplayAnalysis, int]]:
    """Pairs of games that a seat cannot tell apart."""
    rng = random.Random(seed)
    last = list(random_positions(game, seed))[-1]
    for position in (*sampled_positions(game, seed, 1), last):
        for seat in range(game.num_players):
            other = game.analysis.resample(position.history, seat, rng)
            assert other is not None
            mine, theirs = World(1, "here", seat), World(2, "elsewhere", seat)
            yield (
                ReplayAnalysis(recorded(game, position.history, mine)),
                ReplayAnalysis(recorded(game, other, theirs)),
                seat,
            )


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.name} {game.num_players}")
def test_nobody_can_tell_its_world_from_another(game: Game) -> None:
    """The most important property, for all that a seat may be sent: byte for byte."""
    for seed in (0, 1):
        for mine, theirs, seat in other_worlds(game, seed):
            assert everything(mine, seat) == everything(theirs, seat), f"seed {seed}, seat {seat}"
            assert mine.timeline() != theirs.timeline(), "the worlds are the same"


def test_a_card_that_is_shown_is_seen_by_two() -> None:
    asked = Suggest("Miss Scarlett", "Lead Piping", "Library")
    analysis = known_analysis(END, asked, Show("Miss Scarlett"), END)
    third, shower, open_ = (analysis.timeline(seat)["plies"][3] for seat in (2, 0, None))
    asker = analysis.timeline(1)["plies"][3]
    assert third["player"] is None and third["action"] is None and not third["events"]
    assert asker["player"] == 0 and asker["action"] is None, "the event tells which card"
    assert "Miss Scarlett" in asker["events"][0]["text"] and asker["events"][0]["private"]
    for told in (shower, open_):
        assert told["player"] == 0 and told["action"] == "show Miss Scarlett"
    assert asker["events"][0]["audience"] == [0, 1]
    assert [told["has_requests"] for told in (third, asker, shower)] == [False, False, True]


def test_hidden_cards_are_nowhere_in_a_seats_documents() -> None:
    analysis = known_analysis(END, END, END)
    for seat in range(3):
        plies = json.dumps(analysis.timeline(seat)["plies"])
        for holder, hand in enumerate((*HANDS, ENVELOPE)):
            for card in hand:
                assert (card in plies) == (holder == seat)
    assert "seed" not in analysis.timeline(0)["game"] and analysis.timeline()["game"]["seed"] == 1


def test_decisions_of_others_are_their_own() -> None:
    analysis = known_analysis(END, END)
    assert [analysis.decision(ply, 0) is None for ply in range(3)] == [True, False, True]
    assert [analysis.decision(ply) is None for ply in range(-1, 4)] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_who_commits_first_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the event named the player whose bid was the last.
    monkeypatch.setattr(BidsRevealed, "player", 2, raising=False)
    game = make_game("goofspiel", players=3, cards=3)
    history, state = list[Step](), game.initial_state()
    while state.to_act:
        player = state.to_act[0]
        action = state.legal_actions(player)[0] if player != CHANCE else state.parse("turn up 1")
        history.append(Step(player, action))
        state.apply(player, action)
        if len(history) == 4:
            break
    analysis = ReplayAnalysis(recorded(game, history))
    rounds = analysis.timeline(1)["plies"][:4]
    assert [ply["player"] for ply in rounds] == [CHANCE, None, 1, None]
    assert [ply["to_act"] for ply in rounds] == [[1], [1], [], []]
    assert rounds[3]["events"] and rounds[3]["action"] is None
    assert [ply["player"] for ply in analysis.timeline()["plies"][:4]] == [CHANCE, 0, 1, 2]


def test_comments_on_what_a_seat_could_not_know_are_not_for_it() -> None:
    asked = Suggest("Miss Scarlett", "Candlestick", "Kitchen")
    analysis = known_analysis(END, asked, Show("Miss Scarlett"), END)
    kinds = [(each["kind"], each["player"]) for each in analysis.comments()]
    assert kinds == [("suggestion", 1), ("refutation", 0), ("answer", 1)]
    assert not list(analysis.comments(0))
    assert [each["kind"] for each in analysis.comments(1)] == ["suggestion", "answer"]
    told = {measure["title"] for measure in analysis.summaries()[0]["measures"]}
    assert "excess bits shown" in told
    assert not told & {
        each["title"] for each in analysis.summaries(0)[0]["measures"] if "shown" in each["title"]
    }


def test_a_branch_names_its_parent_only_where_all_is_open() -> None:
    game = make_game("kuhn_poker")
    replay = recorded(game, random_game(game)[:1])
    file, before = "kuhn-seed77.jsonl", replay.header.players
    branch = Branch(parent=file, parent_sha256="0" * 64, ply=1, seed=5, players=before)
    replay.header = replay.header.model_copy(update={"branches": (branch,)})
    analysis = ReplayAnalysis(replay)
    sat = {"ply": 1, "players": ["bot:random", "bot:random"]}
    opened = {"parent": "kuhn-seed77.jsonl", "seed": 5, **sat}
    assert analysis.timeline()["game"]["branches"] == [opened]
    assert analysis.timeline(1)["game"]["branches"] == [{"parent": "", **sat}]


SEED = 1_928_374_650


def test_no_seed_of_a_request_is_in_a_seats_documents() -> None:
    """It is drawn from the game's seed, which could be searched for."""
    complaint = f"cannot take {{'seed': {SEED}}}"
    attempt = Attempt(messages=lines("a"), sampling={"seed": SEED, "stop": ["x"]})
    failed = attempt.model_copy(update={"failure": "provider_error", "excerpt": complaint})
    unread = {"messages": 3, "sampling": {"Seed": SEED, "deep": [{"seed": SEED}]}}
    asked = [attempt.to_json(), failed.to_json(), unread]
    details: Details = {1: {"attempts": asked, "note": [complaint, SEED, {complaint: "x"}]}}
    replay = recorded(Cluedo(players=3), known_game(END, END), None, details)
    replay.moves[1] = replay.moves[1].model_copy(update={"failure": f"error: {complaint}"})
    analysis = ReplayAnalysis(replay)
    assert everything(analysis, None).count(str(SEED)) == 9 + 1
    for seat in range(3):
        assert str(SEED) not in everything(analysis, seat)
    own = analysis.decision(1, 0)
    assert own is not None and own["attempts"][0]["sampling"] == {"stop": ["x"]}
    assert own["attempts"][1]["excerpt"] == "cannot take {'seed': …}"
    assert "error" in str(analysis.timeline(0)["plies"][1]["failure"])


@pytest.mark.parametrize("name", ["seed", "Seed", "SEED", "sEeD"])
@pytest.mark.parametrize("seed", [10_000, 48_611, SEED, 2**31 - 1])
def test_seeds_are_found_in_any_case_and_from_five_digits_on(name: str, seed: int) -> None:
    details: JsonValue = {
        "sampling": {name: seed, "deep": [{name: str(seed)}]},
        "why": f"at {seed}",
    }
    seeds = find_seeds(details)
    assert seeds == {str(seed)}
    assert redact(details, seeds) == {"sampling": {"deep": [{}]}, "why": "at …"}
    asked: Details = {1: {"attempts": [details]}}
    analysis = ReplayAnalysis(recorded(Cluedo(players=3), known_game(END, END), None, asked))
    assert str(seed) in everything(analysis, None)
    assert all(str(seed) not in everything(analysis, seat) for seat in range(3))


def test_short_numbers_stay_and_a_short_seed_has_no_field() -> None:
    details: JsonValue = {"SEED": 9_999, "tokens": 9_999, "why": "after 9999 tokens"}
    assert not find_seeds(details)
    assert redact(details, find_seeds(details)) == {"tokens": 9_999, "why": "after 9999 tokens"}


def test_seeds_of_requests_as_a_model_is_asked(tmp_path: Path) -> None:
    """Of a game as it is played, not as a test makes it up."""
    specs = [SPEC, "bot:random", "bot:random"]
    game, writer = make_game("cluedo", players=3), ReplayWriter(tmp_path, "game")
    agents = Match(game, specs, 5).seat(table(["What?", "end turn"] * 9).llm)
    asyncio.run(play(Match(game, specs, 5, max_turns=6), agents, watchers=[writer]))
    replay = read_replay(writer.path)
    noted = [move.details for move in replay.moves if isinstance(move, DecisionLine)]
    seeds = {seed for details in noted for seed in find_seeds(details)}
    assert len(seeds) >= 2
    analysis = ReplayAnalysis(replay)
    for seat in range(3):
        documents = everything(analysis, seat)
        assert not [seed for seed in seeds if seed in documents]
    assert all(seed in everything(analysis, None) for seed in seeds)


# The timeline


# What is known, and what is said of it


def test_comments_say_from_when_on_they_may_be_shown() -> None:
    asked = Suggest("Reverend Green", "Revolver", "Library")
    analysis = known_analysis(asked, Show("Revolver"), END)
    found = [(each["ply"], each["visible_from"], each["kind"]) for each in analysis.comments()]
    assert found == [(1, 2, "suggestion"), (2, 3, "refutation"), (1, 3, "answer")]
    analysis = ReplayAnalysis(recorded(GAMES[0], random_game(GAMES[0])))
    comments = list(analysis.comments())
    places = [each["visible_from"] for each in comments]
    assert places == sorted(places) and places[-1] <= len(analysis.timeline()["plies"])
    assert all(each["ply"] < each["visible_from"] for each in comments)
    mistakes = [each["player"] for each in comments if each["mistake"]]
    assert [s["mistakes"] for s in analysis.summaries()] == [mistakes.count(p) for p in range(3)]


def test_what_others_played_before_a_branch_is_not_summed_up() -> None:
    missed = (Suggest(*ENVELOPE), END, END, END, END, END, END)
    replay = recorded(Cluedo(players=3), known_game(*missed))
    assert ReplayAnalysis(replay).summaries()[0]["mistakes"] == 2
    branch = Branch(
        parent="p.jsonl", parent_sha256="0" * 64, ply=3, seed=5, players=("a", "b", "c")
    )
    replay.header = replay.header.model_copy(update={"branches": (branch,)})
    analysis = ReplayAnalysis(replay)
    assert sum(each["mistake"] for each in analysis.comments()) == 2, "they are shown all the same"
    assert [analysis.summaries(seat)[0]["mistakes"] for seat in (None, 0)] == [1, 1]
    assert "bits gained" not in {each["title"] for each in analysis.summaries()[0]["measures"]}


def branched(*branches: tuple[int, str]) -> Header:
    """`now` sits there now; before each ply, who is named with it did."""
    made = tuple(
        Branch(parent="p", parent_sha256="0" * 64, ply=ply, seed=5, players=(who, "b"))
        for ply, who in branches
    )
    header = Header.of(make_game("kuhn_poker"), 1, ["now", "b"], None)
    return header.model_copy(update={"branches": made})


@pytest.mark.parametrize(
    ("branches", "played"),
    [
        ((), ["now"] * 5),
        (((2, "old"),), ["old", "old", "now", "now", "now"]),
        (((1, "a"), (3, "c")), ["a", "c", "c", "now", "now"]),
        (((3, "a"), (1, "c")), ["a", "now", "now", "now", "now"]),
    ],
)
def test_who_sat_there(branches: tuple[tuple[int, str], ...], played: list[str]) -> None:
    assert [players_at(branched(*branches), ply)[0] for ply in range(5)] == played
