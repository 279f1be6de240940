"""A person at the terminal: what is shown, what may be typed, and what is asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from known_deal import ENVELOPE, HANDS
from pseudo_terminal import Terminal

from arena.agents.agent import Seat
from arena.agents.human import HumanAgent, split_actions
from arena.agents.typed_action import ActionCompleter, Guess, guess, parse, usual_action
from arena.cli.game_run import Epilogue
from arena.core.errors import ActionError
from arena.core.event import Decision, Ply
from arena.core.game import State
from arena.core.observation import TextLevel
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Accuse, DealCards, EndTurn, Suggest
from games.werewolf.rules import Werewolf

STATE = Cluedo(players=3).initial_state()
STATE.apply(-1, DealCards(ENVELOPE, HANDS))
SEEN = STATE.observe(0)
ACCUSATIONS = [Accuse("Miss Scarlett", "Rope", "Hall"), Accuse("Mrs White", "Rope", "Hall")]
LEVELS: tuple[TextLevel, ...] = get_args(TextLevel)


def test_completion_goes_piece_by_piece() -> None:
    completer = ActionCompleter(map(str, SEEN.legal_actions))
    assert list(completer.pieces("")) == ["suggest ", "accuse ", "end turn", "table", "all", "help"]
    assert list(completer.pieces("suggest mi")) == ["suggest Miss Scarlett, "]
    assert len(list(completer.pieces("suggest "))) == 6
    assert list(completer.pieces("suggest Miss Scarlett, r")) == [
        "suggest Miss Scarlett, Revolver, ",
        "suggest Miss Scarlett, Rope, ",
    ]
    assert len(list(completer.pieces("accuse Miss Scarlett, Rope, "))) == 9
    assert not list(completer.pieces("xyz"))


def test_beginnings_and_forgiving_spelling() -> None:
    assert parse("e", SEEN) == EndTurn()
    assert parse("SUGGEST mrs. white rope HALL", SEEN) == Suggest("Mrs White", "Rope", "Hall")


@pytest.mark.parametrize(
    "typed",
    [
        "suggest Mis Scarlett, Rope, Hall",
        "sugest Miss Scarlett Rope Hall",
        "scarlett rope hall",
        "hall, the rope, miss scarlett",
        "I would like to suggest that it was Scarlett with the rope in the hall.",
    ],
)
def test_what_is_nearly_an_action_is_offered(typed: str) -> None:
    with pytest.raises(ActionError):
        parse(typed, SEEN)
    assert guess(typed, SEEN) == Guess(Suggest("Miss Scarlett", "Rope", "Hall"), "")


def test_an_accusation_is_never_offered_to_a_person_who_has_not_written_the_word() -> None:
    only = replace(SEEN, legal_actions=SEEN.game.actions.subset(ACCUSATIONS))
    meant = guess("scarlett rope hall", only)
    assert meant.action is None
    assert meant.remark == "To do this, write all of it: accuse Miss Scarlett, Rope, Hall"
    for typed in ("accuse scarlett rope hall", "acuse Miss Scarlett, Rope, Hall", "accuse"):
        offered = guess(typed, SEEN).action
        assert offered == (ACCUSATIONS[0] if typed.startswith("accuse ") else None), typed


@pytest.mark.parametrize(
    ("typed", "remark"),
    [
        ("2", "'2' is not an action of this game. For example: suggest Miss Scarlett"),
        ("show Rope", "'show Rope' is not allowed now."),
        ("rope", "'rope' may be several actions: suggest, accuse. Say which."),
        ("suggest rope", "Name the suspect and the room too."),
    ],
)
def test_the_rest_is_explained(typed: str, remark: str) -> None:
    with pytest.raises(ActionError):
        parse(typed, SEEN)
    meant = guess(typed, SEEN)
    assert meant.action is None and remark in meant.remark


def test_enter_plays_the_only_action_that_can_be_taken_back_or_is_harmless() -> None:
    assert usual_action(SEEN) is None
    legal = SEEN.game.actions.subset((*ACCUSATIONS, EndTurn()))
    assert usual_action(replace(SEEN, legal_actions=legal)) == EndTurn()
    legal = SEEN.game.actions.subset(ACCUSATIONS)
    assert usual_action(replace(SEEN, legal_actions=legal)) is None


def test_the_legal_actions_are_parted_from_the_news() -> None:
    for level in LEVELS:
        for since in (0, 2, SEEN.num_events):
            text = SEEN.text(level, since)
            news, actions = split_actions(text, SEEN)
            assert "\n".join(filter(None, (news, actions))) == text
            assert actions.startswith("Your action: suggest") and "Your action" not in news


def test_who_is_asked_for_the_game_plays_it_and_is_introduced_once(tmp_path: Path) -> None:
    with Terminal(["play", "--seed", "1", "--out", str(tmp_path)]) as terminal:
        terminal.until("[cluedo]:")
        terminal.press("tictactoe\r")
        assert "Tic-tac-toe: three in a row." in terminal.until("You>")
        terminal.press("mark 2 2\r")
        shown = terminal.until("Your actions:")
        assert "Player 1 marks 2 2." in shown and "three in a row" not in shown


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_whole_game_on_a_terminal(tmp_path: Path, answer: str) -> None:
    """The table is above the prompt, Enter accepts an offer, and an accusation is confirmed."""
    command = "play cluedo --players 3 --seed 2 --seat 0=human --max-turns 1 --out"
    with Terminal([*command.split(), str(tmp_path)]) as terminal:
        shown = terminal.until("You>")
        assert (
            shown.index("Player 1 holds")
            < shown.index("Seen so far")
            < shown.index("Your action: ")
        )
        assert "in the envelope" in shown
        assert max(map(len, shown.split("\r\n"))) <= 80
        terminal.press("scarlett rope kitchen\r")
        shown = terminal.until("Kitchen]>")
        assert "Did you mean 'suggest Miss Scarlett, Rope, Kitchen'?" in shown
        terminal.press("\r")
        shown = terminal.until("end turn]>")
        assert "Player 1 suggests Miss Scarlett, Rope, Kitchen." in shown and "Seen so far" in shown
        terminal.press("accuse mrs white, rope, hall\r")
        terminal.until("Sure?")
        terminal.press(f"{answer}\r")
        if answer == "n":
            terminal.until("end turn]>")
            terminal.press("\r")
        shown = terminal.until("Replay:")
        accused = "Player 1 accuses Mrs White, Rope, Hall, and is wrong" in shown
        assert accused == (answer == "y")
        assert "No result: stopped after 1 turns." in shown
        assert terminal.wait() == 0


def test_a_person_who_is_out_reads_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The victim of the first night is not asked again."""
    game = Werewolf(players=5, talk=0)
    state, watcher = game.initial_state(), Epilogue(HumanAgent("", Seat(game, 1, Random(0))))
    before = ["deal Werewolf, Villager, Seer, Doctor, Villager"]
    for player, text in (
        *((-1, each) for each in before),
        *((0, "kill Player 1"), (1, "pass"), (2, "inspect Player 3"), (3, "protect Player 4")),
    ):
        _step(state, player, text, watcher)
    assert not capsys.readouterr().out and not state.is_out(1)
    _step(state, 4, "pass", watcher)
    assert state.is_out(1) and not state.is_out(4)
    assert "Player 2 (Villager) died in night 1." in capsys.readouterr().out
    for player in state.to_act:
        _step(state, player, "pass", watcher)
    assert capsys.readouterr().out.count("\n") == 2, "the vote and the night, once"


def _step(state: State, player: int, text: str, watcher: Epilogue) -> None:
    action = state.parse(text)
    state.apply(player, action)
    watcher.ply(Ply(0, player, Decision(action), ()), state)
