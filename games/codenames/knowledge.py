"""Measures of clues and guesses. They count what happened; there is no exact knowledge of words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from arena import (
    CHANCE,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import Fact, SeatAssessor
from arena.core.text import pluralize
from games.codenames.notes import CodenamesNotes
from games.codenames.rules import (
    ASSASSIN,
    TEAMS,
    ClueGiven,
    Codenames,
    DealKey,
    DealWords,
    GuessWord,
    WordRevealed,
)

FACTS = {
    "number": Fact("words", "The number of the clue."),
    "found": Fact("words", "Words of the own team that the clue has brought."),
    "owner": Fact("", "The owner of the guessed word."),
}
MEASURES = (
    Measure(
        "words_per_clue",
        "words per clue",
        "words",
        "higher",
        "Words of the own team found in the turn of a clue, per clue of this clue giver.",
    ),
    Measure(
        "right_guesses",
        "right guesses",
        "share",
        "higher",
        "Guesses of this guesser that name a word of the own team, per guess.",
    ),
    Measure(
        "assassin",
        "assassin",
        "share",
        "lower",
        "Games in which the own team has revealed the assassin, per game.",
    ),
)


class CodenamesAssessor(SeatAssessor):
    """Assessor of one game; its kinds are `clue`, `guess` and `game`."""

    game: Codenames

    def _begin(self) -> None:
        # It takes in all events, those of other seats too.
        self._notes = CodenamesNotes(self.game, 0)
        self._clue: Ply | None = None
        """The ply of the clue whose words are being guessed."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the assessment of a guess, and of a clue that is used up."""
        self._latest_ply = ply.number
        found = list[Assessment]()
        for event in ply.events:
            self._notes.update(event)
            match event:
                # A pass is no clue and does not count.
                case ClueGiven(word=str()):
                    self._clue = ply
                case WordRevealed(player, _, owner):
                    right = WeightedSum(float(owner == TEAMS[player % 2]))
                    facts, sums = {"owner": owner}, {"right_guesses": right}
                    found.append(Assessment(ply.number, player, "guess", facts, sums))
        # The last guess, a wrong one, or a stop: what the clue has brought is final.
        if not self._notes.guesses_left:
            found += self._judged_clue()
            self._clue = None
        return [each for each in found if self._wants(each.kind, each.player)]

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessment of a clue that ended the game, and of the game for each seat."""
        # In a game that is cut off, the latest clue may still bring words.
        found = self._judged_clue() if outcome.status == "terminated" else []
        revealed = ASSASSIN in self._notes.revealed.values()
        for player in self._assessed:
            # The guess of the assassin ends the game, so the latest clue was that of the loser.
            guilty = revealed and self._notes.clues[-1].team == player % 2
            sums = {"assassin": WeightedSum(float(guilty))}
            found.append(Assessment(self._latest_ply, player, "game", {}, sums))
        return [each for each in found if self._wants(each.kind, each.player)]

    def _judged_clue(self) -> list[Assessment]:
        if self._clue is None:
            return []
        clue = self._notes.clues[-1]
        facts = {"number": clue.number, "found": clue.found}
        sums = {"words_per_clue": WeightedSum(float(clue.found))}
        return [Assessment(self._clue.number, self._clue.player, "clue", facts, sums)]


class CodenamesAnalysis(GameAnalysis):
    """Judgements of codenames."""

    game: Codenames

    facts = FACTS
    measures = MEASURES
    assessor_type = CodenamesAssessor

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the owners of the hidden words again, if `player` is a guesser."""
        steps = list(history)
        # Clue givers know the key. All other events are public.
        if len(steps) < 2 or player < 2:
            return steps
        words, deal = (step.action for step in steps[:2])
        assert isinstance(words, DealWords)
        assert isinstance(deal, DealKey)
        key = dict(zip(words.words, deal.owners, strict=True))
        revealed = {step.action.word for step in steps if isinstance(step.action, GuessWord)}
        hidden = [word for word in key if word not in revealed]
        # Only hidden words change owners: the results of all guesses and the counts stay.
        owners_left = rng.sample([key[word] for word in hidden], len(hidden))
        drawn = dict(zip(hidden, owners_left, strict=True))
        owners = tuple(drawn.get(word, owner) for word, owner in key.items())
        steps[1] = Step(CHANCE, DealKey(owners))
        return steps

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the result of a clue as text; the events tell everything else."""
        # Guesses and the end of the game are events that every viewer has read.
        if assessment.kind != "clue":
            return None
        facts: Mapping[str, int] = assessment.facts  # type: ignore[assignment]
        # 0 does not say how many words the clue is about.
        of = f"{facts['found']} of " if facts["number"] else ""
        return Comment(
            f"The clue brings {of}{pluralize(facts['number'] or facts['found'], 'word')}."
        )
