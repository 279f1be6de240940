"""Values of questions: the fast computation against a new count per answer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
from test_cluedo_knowledge import random_game

from arena.core.action import CHANCE
from games.cluedo.game import Cluedo
from games.cluedo.inference.constraints import Constraints, card_numbers
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.questions import QuestionValues
from games.cluedo.rules.board import Triple
from games.cluedo.rules.state import CluedoState


def knowledge_of(state: CluedoState, player: int) -> CluedoKnowledge:
    return CluedoKnowledge.after(state.game, player, state.log.witnessed[player])


def full_position(players: int, seed: int) -> CluedoKnowledge:
    game = Cluedo(players=players, leftover_cards="open" if seed % 2 else "dealt")
    rng = random.Random(seed)
    state = random_game(game, rng, moves=rng.randrange(30), accuse=0.05)
    return knowledge_of(state, rng.randrange(players))


def counted_anew(knowledge: CluedoKnowledge, suggestion: Triple) -> float:
    """Return the expected information by a count after each answer: slow and simple."""
    before, expected, seen = knowledge.count, 0.0, 0.0
    for answer in after_each_answer(knowledge, suggestion):
        after = DealCount(answer)
        if after.total:
            probability = float(after.total / before.total)
            expected += probability * after.entropy()
            seen += probability
    return max(0.0, before.entropy() - expected / seen) if seen else 0.0


def after_each_answer(knowledge: CluedoKnowledge, suggestion: Triple) -> Iterator[Constraints]:
    """Yield the knowledge of the suggester after each answer."""
    named = sum(1 << knowledge.game.deck.index[card] for card in suggestion)
    constraints = knowledge.constraints.copy()
    for refuter in knowledge.game.refuters(knowledge.player):
        holder = constraints.holders[refuter]
        for card in card_numbers(named & holder.may):
            answer = constraints.copy()
            answer.holders[refuter].must |= 1 << card
            # Without a weight, "logic" would count a deal once for each card it could show.
            answer.holders[refuter].showings += (named,)
            yield answer
        if named & holder.must:
            return
        holder.may &= ~named
    yield constraints


@pytest.mark.parametrize("players", [2, 3, 4, 5, 6])
def test_full_decks(players: int) -> None:
    worth_asking = 0
    for seed in range(8):
        knowledge = full_position(players, seed)
        information = QuestionValues(knowledge)
        for triple in random.Random(seed).sample(knowledge.game.deck.triples, 4):
            expected = counted_anew(knowledge, triple)
            assert information.bits(triple) == pytest.approx(expected, abs=1e-9)
            worth_asking += expected > 0.1
    assert worth_asking > 8


def test_python_integers_take_over_where_64_bits_do_not_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knowledge = full_position(5, 2)
    triples = knowledge.game.deck.triples[::40]
    fast = [QuestionValues(knowledge).bits(triple) for triple in triples]
    monkeypatch.setattr(DealCount, "_bound", lambda self: 2**80)
    wide = CluedoKnowledge(knowledge.game, knowledge.player)
    wide.constraints = knowledge.constraints.copy()
    assert wide.count.cover(1).dtype == object
    assert [QuestionValues(wide).bits(triple) for triple in triples] == pytest.approx(
        fast, abs=1e-12
    )


def test_the_best_question_is_the_best_or_nearly() -> None:
    """Against all 324; the docstring's figures are means over several games."""
    lost = []
    for seed in range(12):
        knowledge = full_position(4, seed)
        information = QuestionValues(knowledge)
        most = max(map(information.bits, knowledge.game.deck.triples))
        best = QuestionValues(knowledge).best(knowledge.game.suggestions())
        assert best.bits == information.bits(best.suggestion.triple) <= most
        if most:
            lost.append(1 - best.bits / most)
    assert len(lost) > 8
    assert np.mean(lost) < 0.01


def test_only_legal_questions_are_the_best() -> None:
    knowledge = full_position(4, 0)
    for room in knowledge.game.deck.rooms:
        suggestions = knowledge.game.suggestions(room)
        assert QuestionValues(knowledge).best(suggestions).suggestion in suggestions
        assert QuestionValues(knowledge).best(suggestions[:1]).suggestion == suggestions[0]


def test_a_solved_case_has_nothing_to_ask() -> None:
    state = Cluedo(players=2, suspects=2, weapons=2, rooms=2).initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(0)))
    knowledge = knowledge_of(state, 0)
    assert state.envelope is not None
    knowledge._must(knowledge.envelope, knowledge._set(state.envelope))
    assert QuestionValues(knowledge).best(state.game.suggestions()).bits == 0.0


def test_consequences_are_those_of_the_exact_knowledge() -> None:
    game, rng = Cluedo(players=3), random.Random(1)
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(rng))
    player = state.to_act[0]
    knowledge = knowledge_of(state, player)
    found = game.analysis.consequences(knowledge, list(state.legal_actions(player)))
    texts = [text for action, text in found.items() if str(action).startswith("suggest")]
    bits = [float(re.search(r"\d\.\d\d", text)[0]) for text in texts]  # type: ignore[index]
    assert bits == sorted(bits, reverse=True) and bits[0] > 0.3
    assert any("right with probability 0.9 %" in text for text in found.values())
