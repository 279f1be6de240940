"""A study: what each perspective is told, and above all what it is not."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from scripted_table import SPEC, table

from arena.action import CHANCE, Action, Step
from arena.attempt import Attempt, ChatLine, requests_of
from arena.backend import Message
from arena.episode import Branch, ChanceLine, DecisionLine, Header, OutcomeLine, ReplayWriter
from arena.errors import ReplayError
from arena.game import Game
from arena.observation import Json
from arena.playing import outcome_of, play, seat_agents
from arena.registry import make_game
from arena.replay import Replay, read_replay
from arena.testing import random_positions, replay_history, sampled_positions
from games.cluedo.events import Accuse, Deal, EndTurn, Show, Suggest
from games.cluedo.game import Cluedo
from games.goofspiel import BidsRevealed
from replays.study import story as story_module
from replays.study.believing import percent
from replays.study.documents import AttemptJson, DecisionJson, MessageJson
from replays.study.prompts import LONGEST, beside, compare
from replays.study.seating import Former, formerly, players_at
from replays.study.seeds import seeds_in
from replays.study.study import Study

GAMES = [
    make_game("cluedo", players=3, suspects=3, weapons=3, rooms=4),
    make_game("cluedo", variant="classic", players=3),
    make_game("kuhn_poker"),
    make_game("goofspiel", players=3, cards=3),
]
END = EndTurn()
Details = dict[int, dict[str, Json]]
"""Of decisions, by their plies."""


@dataclass(frozen=True)
class World:
    """What a seat may not know, apart from what the rules hide."""

    seed: int = 1
    secret: str = ""
    seat: int | None = None
    """Who must not notice any of it."""

    def decision(self, number: int, player: int, action: str, details: Json) -> DecisionLine:
        secret = "" if player == self.seat else self.secret
        line = ChatLine(role="user", content=f"{player} in {number} {secret}")
        asked = {"attempts": [Attempt(messages=(line,)).to_json()], "note": secret}
        return DecisionLine(
            ply=number,
            player=player,
            action=action,
            failure=f"fell back {secret}" if secret else None,
            details=asked if details is None else details,
            seconds=float(len(secret)),
        )


def recorded(
    game: Game,
    history: Sequence[Step],
    world: World | None = None,
    details: Details | None = None,
) -> Replay:
    """The replay of a history; its outcome if it is over."""
    world = world or World()
    header = Header.of(game, world.seed, ["bot:random"] * game.num_players, None)
    header = header.model_copy(update={"created": datetime(2026, 1, 2, tzinfo=UTC)})
    replay = Replay(Path("x.jsonl"), header)
    for number, step in enumerate(history):
        if step.player == CHANCE:
            replay.moves.append(ChanceLine(ply=number, action=str(step.action)))
        else:
            own = None if details is None else details.get(number, {})
            line = world.decision(number, step.player, str(step.action), own)
            replay.moves.append(line)
    state = replay_history(game, history)
    if state.is_terminal:
        end = outcome_of(state, None)
        replay.outcome = OutcomeLine(
            status=end.status,
            reason=end.reason,
            returns=end.returns,
            winner=end.winner,
            turns=state.turn,
            decisions=len(history),
        )
    return replay


def random_game(game: Game, seed: int = 0) -> list[Step]:
    return list(list(random_positions(game, seed))[-1].history)


def known_game(*actions: Action) -> list[Step]:
    """Moves after the deal that the tests know by heart."""
    state, history = Cluedo(players=3).initial_state(), list[Step]()
    for action in (Deal(ENVELOPE, HANDS), *actions):
        history.append(Step(state.to_act[0], action))
        state.apply(state.to_act[0], action)
    return history


def known_study(*actions: Action, details: Details | None = None) -> Study:
    return Study(recorded(Cluedo(players=3), known_game(*actions), None, details))


def everything(study: Study, seat: int | None) -> str:
    """All that a viewer in this seat may be sent."""
    seats = range(len(study.story()["game"]["seats"]))
    parts = (
        study.story(seat),
        [study.knowledge(each) for each in seats if seat in (None, each)],
        list(study.comments(seat)),
        study.summaries(seat),
        [study.decision(ply, seat) for ply in range(len(study.story()["plies"]))],
    )
    return json.dumps(parts, allow_nan=False)


# What nobody may learn


def other_worlds(game: Game, seed: int) -> Iterator[tuple[Study, Study, int]]:
    """Pairs of games that a seat cannot tell apart."""
    rng = random.Random(seed)
    last = list(random_positions(game, seed))[-1]
    for position in (*sampled_positions(game, seed, 1), last):
        for seat in range(game.num_players):
            other = game.resample(position.history, seat, rng)
            assert other is not None
            mine, theirs = World(1, "here", seat), World(2, "elsewhere", seat)
            yield (
                Study(recorded(game, position.history, mine)),
                Study(recorded(game, other, theirs)),
                seat,
            )


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.name} {game.num_players}")
def test_nobody_can_tell_its_world_from_another(game: Game) -> None:
    """The most important property, for all that a seat may be sent: byte for byte."""
    for seed in (0, 1):
        for mine, theirs, seat in other_worlds(game, seed):
            assert everything(mine, seat) == everything(theirs, seat), f"seed {seed}, seat {seat}"
            assert mine.story() != theirs.story(), "the worlds are the same"


def test_a_card_that_is_shown_is_seen_by_two() -> None:
    asked = Suggest("Miss Scarlett", "Lead Piping", "Library")
    study = known_study(END, asked, Show("Miss Scarlett"), END)
    third, shower, open_ = (study.story(seat)["plies"][3] for seat in (2, 0, None))
    asker = study.story(1)["plies"][3]
    assert third["player"] is None and third["action"] is None and not third["events"]
    assert asker["player"] == 0 and asker["action"] is None, "the event tells which card"
    assert "Miss Scarlett" in asker["events"][0]["text"] and asker["events"][0]["private"]
    for told in (shower, open_):
        assert told["player"] == 0 and told["action"] == "show Miss Scarlett"
    assert asker["events"][0]["audience"] == [0, 1]
    assert [told["asked"] for told in (third, asker, shower)] == [False, False, True]


def test_hidden_cards_are_nowhere_in_a_seats_documents() -> None:
    study = known_study(END, END, END)
    for seat in range(3):
        plies = json.dumps(study.story(seat)["plies"])
        for holder, hand in enumerate((*HANDS, ENVELOPE)):
            for card in hand:
                assert (card in plies) == (holder == seat)
    assert "seed" not in study.story(0)["game"] and study.story()["game"]["seed"] == 1


def test_decisions_of_others_are_their_own() -> None:
    study = known_study(END, END)
    assert [study.decision(ply, 0) is None for ply in range(3)] == [True, False, True]
    assert [study.decision(ply) is None for ply in range(-1, 4)] == [True, True, False, False, True]


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
    study = Study(recorded(game, history))
    rounds = study.story(1)["plies"][:4]
    assert [ply["player"] for ply in rounds] == [CHANCE, None, 1, None]
    assert [ply["to_act"] for ply in rounds] == [[1], [1], [], []]
    assert rounds[3]["events"] and rounds[3]["action"] is None
    assert [ply["player"] for ply in study.story()["plies"][:4]] == [CHANCE, 0, 1, 2]


def test_comments_on_what_a_seat_could_not_know_are_not_for_it() -> None:
    asked = Suggest("Miss Scarlett", "Candlestick", "Kitchen")
    study = known_study(END, asked, Show("Miss Scarlett"), END)
    kinds = [(each["kind"], each["player"]) for each in study.comments()]
    assert kinds == [("refutation", 0), ("suggestion", 1)]
    assert not list(study.comments(0))
    assert [each["kind"] for each in study.comments(1)] == ["suggestion"]
    told = {measure["title"] for measure in study.summaries()[0]["measures"]}
    assert "bits shown" in told
    assert "bits shown" not in {each["title"] for each in study.summaries(0)[0]["measures"]}


def test_a_branch_names_its_parent_only_where_all_is_open() -> None:
    game = make_game("kuhn_poker")
    replay = recorded(game, random_game(game)[:1])
    file, before = "kuhn-seed77.jsonl", replay.header.players
    branch = Branch(parent=file, parent_sha256="0" * 64, ply=1, seed=5, players=before)
    replay.header = replay.header.model_copy(update={"branches": (branch,)})
    study = Study(replay)
    sat = {"ply": 1, "players": ["bot:random", "bot:random"]}
    opened = {"parent": "kuhn-seed77.jsonl", "seed": 5, **sat}
    assert study.story()["game"]["branches"] == [opened]
    assert study.story(1)["game"]["branches"] == [{"parent": "", **sat}]


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
    study = Study(replay)
    assert everything(study, None).count(str(SEED)) == 9 + 1
    for seat in range(3):
        assert str(SEED) not in everything(study, seat)
    own = study.decision(1, 0)
    assert own is not None and own["attempts"][0]["sampling"] == {"stop": ["x"]}
    assert own["attempts"][1]["excerpt"] == "cannot take {'seed': …}"
    assert "error" in str(study.story(0)["plies"][1]["failure"])


def test_seeds_of_requests_as_a_model_is_asked(tmp_path: Path) -> None:
    """Of a game as it is played, not as a test makes it up."""
    specs = [SPEC, "bot:random", "bot:random"]
    game, writer = make_game("cluedo", players=3), ReplayWriter(tmp_path, "game")
    agents = seat_agents(game, specs, 5, llm=table(["What?", "end turn"] * 9).llm)
    asyncio.run(play(game, agents, 5, max_turns=6, players=specs, watchers=[writer]))
    replay = read_replay(writer.path)
    noted = [move.details for move in replay.moves if isinstance(move, DecisionLine)]
    seeds = {seed for details in noted for seed in seeds_in(details)}
    assert len(seeds) >= 2
    study = Study(replay)
    for seat in range(3):
        documents = everything(study, seat)
        assert not [seed for seed in seeds if seed in documents]
    assert all(seed in everything(study, None) for seed in seeds)


# The story


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.name} {game.num_players}")
@pytest.mark.parametrize("seat", [None, 1])
def test_a_story_can_be_continued(game: Game, seat: int | None) -> None:
    study = Study(recorded(game, random_game(game, 3)))
    full = study.story(seat)
    assert full["first"] == 0 and len(full["scenes"]) == len(full["plies"]) + 1
    for first in range(len(full["plies"]) + 1):
        later = study.story(seat, first)
        assert later["plies"] == full["plies"][first:]
        assert later["scenes"][1:] == full["scenes"][first + 1 :]
        shown = [scene for scene in full["scenes"][: first + 1] if scene is not None]
        assert later["scenes"][0] == (shown[-1] if shown else None), "its own scene stands"
    assert study.story(seat, 10**6)["first"] == len(full["plies"])


def test_a_game_without_a_scene_has_its_diagram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_module, "_has_scene", lambda game: False)
    study = known_study(END, Suggest(*ENVELOPE), END)
    scenes = study.story(0)["scenes"]
    assert study.story()["game"]["scene"] is None
    assert "Miss Scarlett" in scenes[0] and scenes[1] != scenes[0], "its hand is marked"
    assert scenes[2] is None, "nothing to see in the end of a turn"
    assert scenes[3] is not None, "nobody could refute"
    monkeypatch.setattr(story_module, "LONGEST_DRAWN", 3)
    assert known_study(END, END).story(0)["scenes"] == [None] * 4


def test_what_is_said_of_a_file(tmp_path: Path) -> None:
    game = make_game("kuhn_poker")
    replay = recorded(game, random_game(game, 2)[:2])
    lines = [replay.header.to_json(), *(m.model_dump(mode="json") for m in replay.moves)]
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + '\n{"type": "dec', encoding="utf-8")
    cut_off = Study(read_replay(file)).story(0)
    assert cut_off["notice"] and "cut off" in cut_off["notice"]
    assert len(cut_off["plies"]) == 2 and cut_off["outcome"] is None
    file.write_text("\n".join(map(json.dumps, lines[:2])) + "\n", encoding="utf-8")
    unfinished = Study(read_replay(file)).story()
    assert unfinished["notice"] and "unfinished" in unfinished["notice"]
    file.write_text(json.dumps(lines[0]) + "\n", encoding="utf-8")
    empty = Study(read_replay(file))
    assert empty.story()["plies"] == [] and len(empty.story()["scenes"]) == 1
    assert empty.decision(0) is None and empty.summaries() == []


def test_a_move_that_does_not_fit() -> None:
    replay = recorded(Cluedo(players=3), known_game(END))
    replay.moves.append(DecisionLine(ply=2, player=0, action="end turn", failure=None, seconds=0.0))
    with pytest.raises(ReplayError, match="ply 2"):
        Study(replay)


def test_a_long_game_opens_quickly() -> None:
    game = make_game("cluedo", variant="classic", players=6)
    state, rng, history = game.initial_state(), random.Random(1), list[Step]()
    while len(state.log.events) < 2000:
        player = state.to_act[0]
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            legal = [a for a in state.legal_actions(player) if not isinstance(a, Accuse)]
            action = rng.choice([a for a in legal if a != END] or legal)
        history.append(Step(player, action))
        state.apply(player, action)
    replay = recorded(game, history)
    began = time.process_time()
    story = Study(replay).story()
    assert sum(len(ply["events"]) for ply in story["plies"]) >= 2000
    assert time.process_time() - began < 1.5


# What is known, and what is said of it


def test_knowledge_is_told_when_it_changes() -> None:
    study = known_study(END, Suggest(*ENVELOPE), END, END)
    known = study.knowledge(1)
    assert known is not None and known["of"] == 1
    assert known["places"] == ["Player 0", "Player 1", "Player 2", "Envelope"]
    assert len(known["things"]) == len(known["kinds"]) == 21
    assert [each["position"] for each in known["known"]] == [0, 1, 3]
    assert known["known"][0]["worlds"] == "5557616064", "all deals"
    last = known["known"][-1]
    assert last["bits"] == 0.0 and last["grid"] is not None
    assert last["grid"][known["things"].index("Rope")] == [0, 0, 0, 1]
    assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in last["grid"])
    assert Study(recorded(make_game("goofspiel"), [])).knowledge(0) is None


def test_comments_say_from_when_on_they_may_be_shown() -> None:
    asked = Suggest("Miss Scarlett", "Lead Piping", "Library")
    study = known_study(END, asked, Show("Miss Scarlett"), END)
    found = [(each["ply"], each["found"], each["kind"]) for each in study.comments()]
    assert found == [(3, 4, "refutation"), (2, 4, "suggestion")]
    study = Study(recorded(GAMES[0], random_game(GAMES[0])))
    comments = list(study.comments())
    places = [each["found"] for each in comments]
    assert places == sorted(places) and places[-1] <= len(study.story()["plies"])
    assert all(each["ply"] < each["found"] for each in comments)
    mistakes = [each["player"] for each in comments if each["mistake"]]
    assert [s["mistakes"] for s in study.summaries()] == [mistakes.count(p) for p in range(3)]


def test_the_end_is_judged_when_it_is_there() -> None:
    missed = (Suggest(*ENVELOPE), END, END, END)
    running = known_study(*missed)
    assert "unused certainty" not in {each["kind"] for each in running.comments()}
    over = known_study(*missed, END, Accuse(*ENVELOPE))
    last = list(over.comments())[-1]
    assert (last["kind"], last["player"], last["found"]) == ("unused certainty", 0, 7)
    assert all("/" not in m["title"] for m in over.summaries()[0]["measures"])


def test_several_may_read_the_comments_at_once() -> None:
    study = known_study(Suggest(*ENVELOPE), END, Suggest(*ENVELOPE), END)
    first, second = study.comments(), study.comments(0)
    assert next(first) == next(second)
    assert [each["kind"] for each in first] == [
        "missed accusation",
        "suggestion",
        "missed accusation",
    ]
    assert [each["kind"] for each in second] == ["missed accusation"]


def test_what_others_played_before_a_branch_is_not_summed_up() -> None:
    missed = (Suggest(*ENVELOPE), END, END, END, END, END, END)
    replay = recorded(Cluedo(players=3), known_game(*missed))
    assert Study(replay).summaries()[0]["mistakes"] == 2
    branch = Branch(
        parent="p.jsonl", parent_sha256="0" * 64, ply=3, seed=5, players=("a", "b", "c")
    )
    replay.header = replay.header.model_copy(update={"branches": (branch,)})
    study = Study(replay)
    assert sum(each["mistake"] for each in study.comments()) == 2, "they are shown all the same"
    assert [study.summaries(seat)[0]["mistakes"] for seat in (None, 0)] == [1, 1]
    assert "bits gained" not in {each["title"] for each in study.summaries()[0]["measures"]}


def branched(*branches: tuple[int, str]) -> Header:
    """`now` sits there now; before each ply, who is named with it did."""
    made = tuple(
        Branch(parent="p", parent_sha256="0" * 64, ply=ply, seed=5, players=(who, "b"))
        for ply, who in branches
    )
    header = Header.of(make_game("kuhn_poker"), 1, ["now", "b"], None)
    return header.model_copy(update={"branches": made})


@pytest.mark.parametrize(
    ("branches", "played", "former"),
    [
        ((), ["now"] * 5, []),
        (((2, "old"),), ["old", "old", "now", "now", "now"], [Former("old", 2)]),
        (((1, "a"), (3, "c")), ["a", "c", "c", "now", "now"], [Former("c", 3), Former("a", 1)]),
        (((3, "a"), (1, "c")), ["a", "now", "now", "now", "now"], [Former("a", 1)]),
        (((2, "now"),), ["now"] * 5, []),
        (((0, "old"),), ["now"] * 5, []),
    ],
)
def test_who_sat_there(
    branches: tuple[tuple[int, str], ...], played: list[str], former: list[Former]
) -> None:
    header = branched(*branches)
    assert [players_at(header, ply)[0] for ply in range(5)] == played
    assert list(formerly(header, 0)) == former and not list(formerly(header, 1))


# Decisions


def said(message: MessageJson) -> str:
    return "".join(text for what, text in message["parts"] if what != "gone")


def decided(study: Study, ply: int) -> DecisionJson:
    found = study.decision(ply)
    assert found is not None
    return found


def lines(*contents: str) -> tuple[ChatLine, ...]:
    return tuple(ChatLine(role="user", content=content) for content in contents)


def test_requests_are_told_in_full_beside_the_last_one() -> None:
    attempts = [
        Attempt(messages=lines("rules", "turn 1\nyour cards\n"), failure="illegal"),
        Attempt(kept=2, messages=lines("no"), tokens=((5, -0.5, None),)),
        Attempt(kept=1, messages=lines("turn 2\nyour cards\n"), reply="end turn"),
    ]
    first, second, third = (attempt.to_json() for attempt in attempts)
    details = {1: {"attempts": [first, second]}, 4: {"attempts": [third]}}
    study = known_study(END, END, END, END, details=details)
    told: list[AttemptJson] = [*decided(study, 1)["attempts"], *decided(study, 4)["attempts"]]
    full = [[message.content for message in request] for request in requests_of(attempts)]
    assert [each["unchanged"] for each in told] == [0, 2, 0], "once in a decision, all is told"
    assert [each["unchanged_characters"] for each in told] == [0, len("".join(full[0])), 0]
    for each, request in zip(told, full, strict=True):
        assert [said(message) for message in each["messages"]] == request[each["unchanged"] :]
    before = [[message["sent_before"] for message in each["messages"]] for each in told]
    assert before == [[False, False], [False], [True, False]]
    changed = [("gone", "turn 1\n"), ("new", "turn 2\n"), ("same", "your cards\n")]
    assert told[2]["messages"][1]["parts"] == changed
    assert told[1]["tokens"] == [{"id": 5, "logprob": -0.5}] and told[0]["failure"] == "illegal"
    asked = [ply["asked"] for ply in study.story()["plies"]]
    assert asked == [False, True, False, False, True]


def growing(count: int, text: str) -> list[Json]:
    """Each keeps all that was sent before and adds to it."""
    return [Attempt(kept=kept, messages=lines(text)).to_json() for kept in range(count)]


def test_a_chat_that_grows_is_not_told_again_and_again() -> None:
    text = "x" * 2_000
    study = known_study(END, END, END, END, details={
        1: {"attempts": growing(1_200, text)},
        4: {"attempts": [Attempt(kept=1_200, messages=lines("now")).to_json()]},
    })  # fmt: skip
    first, later = decided(study, 1), decided(study, 4)
    assert (len(first["attempts"]), first["more_attempts"]) == (20, 1_180)
    assert [each["unchanged"] for each in first["attempts"]] == list(range(20))
    assert all(len(each["messages"]) == 1 for each in first["attempts"])
    (attempt,) = later["attempts"]
    assert (attempt["unchanged"], attempt["unchanged_characters"]) == (1_200, 2_400_000)
    assert [said(message) for message in attempt["messages"]] == ["now"]
    assert len(json.dumps([first, later])) < 100_000


def test_a_decision_with_very_many_attempts() -> None:
    began = time.process_time()
    attempts: list[Json] = [{"kept": kept, "messages": []} for kept in range(200_000)]
    found = decided(known_study(END, details={1: {"attempts": attempts}}), 1)
    assert (len(found["attempts"]), found["more_attempts"]) == (20, 199_980)
    unread = decided(known_study(END, details={1: {"attempts": [7] * 10_000}}), 1)
    assert unread["other"] == {"attempts": [7] * 20}
    assert time.process_time() - began < 5


def test_a_decision_is_no_longer_than_two_million_characters() -> None:
    big = Attempt(
        messages=lines(*["m" * 600_000] * 10),
        reply="r" * 300_000,
        tokens=((1, -0.5, None),) * 100_000,
        sampling={"stop": ["s" * 3_000_000]},
    )
    details: Details = {1: {"attempts": [big.to_json()] * 3, "note": "n" * 3_000_000}}
    found = decided(known_study(END, details=details), 1)
    assert len(json.dumps(found)) < 2_100_000
    first, *_, last = found["attempts"]
    assert first["reply"] == "r" * 300_000
    assert said(first["messages"][2]).endswith(" more characters)")
    assert len(first["messages"]) + first["more_messages"] == 10 and first["more_messages"] > 5
    assert first["more_tokens"] == 100_000
    assert last["reply"] == "… (300,000 more characters)"


def test_what_was_allowed() -> None:
    found = decided(known_study(END), 1)
    assert len(found["legal"]) == 60 and found["legal"][0].startswith("suggest")
    assert found["more_legal"] == 2 * 6 * 6 * 9 + 1 - 60
    assert found["action"] == "end turn" and found["player"] == 0


@pytest.mark.parametrize(
    "attempts", [7, None, "x", {}, [[]], [{"messages": 3}], [{"messages": [], "reply": 1}]]
)
def test_details_that_make_no_sense_are_handed_on(attempts: Json) -> None:
    kept = Attempt(messages=lines("a")).to_json()
    details = {1: {"attempts": attempts}, 4: {"attempts": [kept, 5], "deep": [float("nan"), {}]}}
    study = known_study(END, END, END, END, details=details)
    bad = attempts if isinstance(attempts, list) else [attempts]
    assert decided(study, 1)["other"] == {"attempts": bad} and not decided(study, 1)["attempts"]
    half = decided(study, 4)
    assert said(half["attempts"][0]["messages"][0]) == "a"
    assert half["other"] == {"attempts": [5], "deep": [None, {}]}


def test_numbers_that_json_does_not_have() -> None:
    nowhere = float("inf")
    attempt = {"messages": [], "cost": nowhere, "tokens": [[1, -nowhere, None]]}
    attempt["seconds_to_first_token"] = float("nan")
    replay = recorded(Cluedo(players=3), known_game(END), None, {1: {"attempts": [attempt]}})
    replay.moves[1] = replay.moves[1].model_copy(update={"seconds": nowhere})
    json.dumps(Study(replay).story(), allow_nan=False)
    assert json.dumps(decided(Study(replay), 1), allow_nan=False)


def test_beliefs_beside_the_exact_ones() -> None:
    beliefs = {
        "sure": {"Candlestick": 0, "Rope": 2},
        "envelope": {"Mrs White": 0.75, "Reverend Green": 0.25},
        "reply": "I think",
    }
    found = decided(known_study(END, details={1: {"beliefs": beliefs}}), 1)
    rows = {row["about"]: (row["stated"], row["exact"]) for row in found["beliefs"]}
    assert rows == {
        "Candlestick: Player 0": ("sure", "100 %"),
        "Rope: Player 2": ("sure", "38 %"),
        "Mrs White: Envelope": ("75 %", "25 %"),
        "Reverend Green: Envelope": ("25 %", "25 %"),
        "Mrs Peacock: Envelope": ("0 %", "25 %"),
        "Professor Plum: Envelope": ("0 %", "25 %"),
    }
    assert found["other"] == {"beliefs": {"reply": "I think"}}


@pytest.mark.parametrize(
    "beliefs",
    [
        3,
        [],
        {"sure": 3},
        {"sure": {"Rope": 9}},
        {"sure": {"Rope": -1}},
        {"sure": {"Rope": "1"}},
        {"sure": {"Excalibur": 1}},
        {"envelope": {"Rope": []}},
        {"failure": "unparsable"},
    ],
)
def test_beliefs_that_make_no_sense_are_handed_on(beliefs: Json) -> None:
    found = decided(known_study(END, details={1: {"beliefs": beliefs}}), 1)
    assert not found["beliefs"]
    assert found["other"] == ({"beliefs": beliefs} if beliefs else {})


def test_percents() -> None:
    shares = (0.0, 0.004, 0.25, 0.996, 1.0)
    assert list(map(percent, shares)) == ["0 %", "< 1 %", "25 %", "> 99 %", "100 %"]


def _sent(*contents: str) -> list[Message]:
    return [Message("user", content) for content in contents]


TEXTS = st.text(alphabet="ab\r\n\x0c\u2028", max_size=40)


@given(TEXTS, TEXTS)
def test_parts_make_up_both_texts(before: str, now: str) -> None:
    parts = compare(before, now)
    assert "".join(text for what, text in parts if what != "gone") == now
    assert "".join(text for what, text in parts if what != "new") == before
    assert all(text for _, text in parts)


def test_work_on_prompts_is_bounded() -> None:
    [huge] = beside(_sent("x\n" * LONGEST), _sent("x\n" * LONGEST + "y"))
    assert huge["parts"] == [("new", "x\n" * LONGEST + "y")]
    began = time.process_time()
    found = beside(_sent(*["a\nb\n" * 300] * 500), _sent(*["b\na\n" * 300] * 500))
    assert time.process_time() - began < 2
    assert {message["parts"][0][0] for message in found[-9:]} == {"new"}
