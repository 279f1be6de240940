"""The claim reader on its corpus, and on input that is not meant for it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from arena import CHANCE, make_game
from arena.core.claims import Claim, GameTalk, Reading
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.evaluation.talk.reader import ClaimReader

CORPUS = Path(__file__).parent.parent / "games" / "data" / "utterances.jsonl"
PLAYERS = {"werewolf": 7, "avalon": 7, "negotiation": 2}
DEALS = 5


@dataclass(frozen=True)
class Utterance:
    game: str
    part: str
    speaker: int
    text: str
    claims: list[str]


def corpus(part: str) -> list[Utterance]:
    lines = CORPUS.read_text("utf-8").splitlines()
    return [u for u in (Utterance(**json.loads(line)) for line in lines) if u.part == part]


@cache
def game_of(name: str) -> Game:
    return make_game(name, players=PLAYERS[name])


@cache
def reader_of(name: str) -> ClaimReader:
    talk = game_of(name).talk
    assert talk is not None
    return ClaimReader(talk.vocabulary)


def read(text: str, speaker: int = 1, game: str = "werewolf") -> Reading:
    return reader_of(game).read(text, speaker)


def claims(text: str, speaker: int = 1, game: str = "werewolf") -> list[str]:
    return [str(claim) for claim in read(text, speaker, game).claims]


def typed_right(utterances: list[Utterance]) -> float:
    """Return the share of utterances of which exactly the annotated claims were read."""
    right = sum(
        sorted(claims(u.text, u.speaker, u.game)) == sorted(u.claims) for u in utterances
    )
    return right / len(utterances)


def lies(utterances: list[Utterance]) -> Iterator[tuple[bool, bool]]:
    """Yield for each claim, read or annotated, in random deals: is it a lie as read, as annotated?

    The deals are those in which a speaker knows its own role, or values, and nothing more.
    """
    rng = random.Random(5)
    for u in utterances:
        game = game_of(u.game)
        talk = game.talk
        assert isinstance(talk, GameTalk)
        found = set(claims(u.text, u.speaker, u.game))
        for _ in range(DEALS):
            state = game.initial_state()
            state.apply(CHANCE, state.sample_chance(rng))
            knowledge = game.analysis.knowledge(u.speaker)
            assert knowledge is not None
            for event in state.log.witnessed[u.speaker]:
                knowledge.update(event)
            for text in found | set(u.claims):
                claim = Claim.parse(text)
                probability = talk.probability(claim, u.speaker, knowledge)
                if probability is not None and talk.truth(claim, probability) == "lie":
                    yield text in found, text in u.claims


def precision(utterances: list[Utterance]) -> float:
    counts = Counter(lies(utterances))
    as_read = counts[True, True] + counts[True, False]
    return counts[True, True] / as_read


def test_the_corpus_has_all_games_and_enough_utterances() -> None:
    development, held_out = corpus("development"), corpus("held out")
    assert len(development) >= 1500 and len(held_out) >= 500
    assert {u.game for u in held_out} == set(PLAYERS)
    assert not {u.text for u in development} & {u.text for u in held_out}


def test_claims_of_the_development_part_are_typed_right() -> None:
    assert typed_right(corpus("development")) >= 0.99
