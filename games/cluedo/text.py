"""Texts of Cluedo: narration of events, and the situation of a player.

Models read these texts. Trained checkpoints depend on the exact wording.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import Event, FirstGame, Observation, PlayGuide, TextLevel
from arena.core.text import pluralize
from games.cluedo.analysis.beliefs import belief_question, read_beliefs
from games.cluedo.facts import Facts
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.prompts import CluedoPrompts, action_prompt, describe_place
from games.cluedo.rules.events import (
    Accuse,
    Accused,
    CardShown,
    Dealt,
    DiceThrown,
    EnvelopeSeen,
    HandDealt,
    PawnMoved,
    PawnMovement,
    Refuted,
    Suggested,
    TurnBegan,
    Unable,
    WeaponMoved,
)

Possible = NDArray[np.bool_]
"""Possible holders of each card: shape (cards, seats + 1), the envelope last."""

WAYS: dict[PawnMovement, str] = {
    "walks": "goes to",
    "passage": "takes the passage to",
    "summoned": "is brought to",
    "steps aside": "steps aside into",
}


FIRST_GAME = FirstGame(
    {"variant": "cards", "players": 3, "suspects": 3, "weapons": 3, "rooms": 4},
    (
        (
            "suggest",
            "Choose a suspect, a weapon and a room on the table, then confirm. You look for the "
            "three cards in the envelope, so ask for cards that you do not hold.",
        ),
        (
            "end",
            "Look at what happened. Whoever could not show a card has none of the three. A card "
            "that was shown to you is not in the envelope. Mark both in “My sheet”: one press "
            "is ✓, two are ✗. Then end your turn.",
        ),
        (
            "show",
            "You hold a card that was asked for, so you must show one. Only the player who asked "
            "sees it. Showing the same card again tells the others least.",
        ),
        (
            "suggest",
            "If you name one of your own cards, the answer is about the other two only. That is "
            "how to test a single card.",
        ),
        (
            "accuse",
            "“Check my sheet” compares your marks with all that follows from what you saw. When "
            "one suspect, one weapon and one room are left, accuse. A false accusation loses.",
        ),
    ),
)


class Notebook(Facts):
    """Facts of a player, with sheets of what follows from them; many games need no sheet."""

    _logic: CluedoKnowledge | None = None
    _num_read = 0

    @cached_property
    def _sheets(self) -> dict[int, Possible]:
        return {}

    def sheet(self, events: tuple[Event, ...], count: int) -> Possible:
        """Return which holders can have each card after the first `count` of `events`.

        With ascending `count` each event is processed once.
        """
        if count not in self._sheets:
            # Knowledge cannot go back, so an earlier sheet needs a new one from the first event.
            if self._logic is None or count < self._num_read:
                self._logic, self._num_read = CluedoKnowledge(self.game, self.player, "logic"), 0
            for event in events[self._num_read : count]:
                self._logic.update(event)
            self._num_read = count
            self._sheets[count] = self._logic.possible()
        return self._sheets[count]


class CluedoText(CluedoPrompts):
    """Texts of Cluedo."""

    notes_type = Notebook
    table_shows_notes = True

    def guide(self) -> PlayGuide:
        way = "suggest a suspect, a weapon and a room"
        if self.game.has_board:
            way = (
                "throw the dice and move towards a room. In a room, suggest a suspect and a weapon "
                "there"
            )
        answers = (
            "The others are asked in order from your left: the first who has one of the three "
            "cards shows you one, which only you see. Whoever is passed over has none of them."
        )
        return PlayGuide(
            goal="Find out who did it, with what and where: the three cards in the envelope.",
            turn=f"In your turn, {way}. {answers}",
            end=(
                "When you know all three cards, accuse. A right accusation wins at once. After a "
                "false one you only show cards."
            ),
            example=(
                "You suggest Mrs White, Rope, Hall, and no player can show a card. You hold the "
                "Rope: so Mrs White and the Hall are in the envelope, and only the weapon is open."
            ),
            first_game=FIRST_GAME,
        )

    def belief_question(self, observation: Observation) -> str | None:
        return belief_question(self.game, observation)

    def read_beliefs(self, answer: str, observation: Observation) -> dict[str, JsonValue]:
        return read_beliefs(self.game, observation.player, answer)

    def narrate(self, event: Event) -> str:  # noqa: PLR0911, PLR0912 - one case a kind.
        """Return one event as a sentence."""
        names = self.game.seat_names
        match event:
            case Dealt(hand_sizes, open_cards):
                open_text = f" Open on the table: {', '.join(open_cards)}." if open_cards else ""
                sizes = ", ".join(f"{n} {size}" for n, size in zip(names, hand_sizes, strict=True))
                return f"Cards dealt: {sizes}.{open_text}"
            case HandDealt(player, cards):
                return f"{names[player]} holds {', '.join(cards)}."
            case TurnBegan(player, turn):
                return f"Turn {turn}: {names[player]}."
            case DiceThrown(player, first, second):
                return f"{names[player]} throws {first} + {second} = {first + second}."
            case PawnMoved(suspect, place, how):
                return f"{suspect} {WAYS[how]} {describe_place(place)}."
            case WeaponMoved(weapon, room):
                return f"{weapon} is brought to the {room}."
            case Suggested(player):
                return f"{names[player]} suggests {event.triple}."
            case Unable(players):
                who = ", ".join(names[player] for player in players)
                return f"{who} cannot refute."
            case Refuted(player, suggester):
                return f"{names[player]} shows {names[suggester]} a card."
            case CardShown(player, suggester, card):
                return f"{names[player]} shows {names[suggester]}: {card}."
            case Accused(player, correct=correct):
                result = "and is right" if correct else "and is wrong: out, but still shows cards"
                return f"{names[player]} accuses {event.triple}, {result}."
            case EnvelopeSeen(player, envelope):
                return f"{names[player]} looks into the envelope: {envelope}."
            case _:
                raise TypeError(f"{event!r} is not an event of Cluedo")

    def describe(self, observation: Observation, level: TextLevel, since: int = 0) -> str:
        """Return the situation of a player; with `since`, only the news after so many events."""
        lines = [] if since else [self._introduction(observation)]
        lines += self._narration(observation, since)
        lines += self._aids_and_actions(observation, level, since)
        return "\n".join(lines)

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """Return the situation without the first `forget` events.

        Events that a notebook does not contain are kept: deal, own hand, accusations, envelope.
        """
        lines = [f"{self._introduction(observation)} {self.omission_notice}"]
        lines += [
            self.narrate(event)
            for event in observation.events[:forget]
            if isinstance(event, Dealt | HandDealt | Accused | EnvelopeSeen)
        ]
        lines += self._narration(observation, forget)
        lines += self._aids_and_actions(observation, "notes" if level == "events" else level, 0)
        return "\n".join(lines)

    def _aids_and_actions(
        self, observation: Observation, level: TextLevel, since: int
    ) -> Iterator[str]:
        """Yield the notebook or deductions of the text level, and the legal actions."""
        notes: Notebook = observation.notes
        if level == "notes" and notes.hand:
            yield from self._notebook(observation, notes, since)
        if level == "deductions" and notes.hand:
            yield from self._deductions(observation, notes, since)
        if observation.legal_actions:
            yield from action_prompt(
                self.game, observation.legal_actions, notes, with_example=not since
            )

    def _narration(self, observation: Observation, since: int) -> Iterator[str]:
        """Yield the events, one sentence each.

        Refuter and suggester see the card that is shown, so the public event is left out for them.
        """
        for event in observation.events_since(since):
            if isinstance(event, Refuted) and observation.player in (event.player, event.suggester):
                continue
            yield self.narrate(event)

    def _notebook(self, observation: Observation, notes: Notebook, since: int) -> Iterator[str]:
        """Yield the cards that the player saw itself; with `since`, only the lines that changed."""
        game, names = self.game, self.game.seat_names
        new = [event for event in observation.events_since(since) if isinstance(event, CardShown)]
        shown = {event.card: event.player for event in new if event.suggester == notes.player}
        # The hand is among the news: this is the first text, so the whole notebook is given.
        dealt = any(isinstance(event, HandDealt) for event in observation.events_since(since))
        if dealt:
            yield "Your notebook:"
            yield f"- own cards: {', '.join(notes.hand)}"
        elif shown:
            yield "New in your notebook:"
        by_player: dict[int, list[str]] = {}
        for card, player in notes.shown.items():
            by_player.setdefault(player, []).append(card)
        for player, cards in sorted(by_player.items()):
            if dealt or player in shown.values():
                yield f"- shown to you by {names[player]}: {', '.join(game.deck.sort(cards))}"
        # Later they follow from the news; the whole notebook is all that a rebuilt chat has.
        if not since:
            for player, absent in sorted(_absent_cards(notes).items()):
                unheld = ", ".join(game.deck.sort([*absent]))
                yield f"- {names[player]} does not hold {unheld}"
        if dealt or shown or _may_accuse(observation):
            suspects, weapons, rooms = (
                ", ".join(card for card in cards if card not in notes.seen)
                for cards in game.deck.categories
            )
            yield f"- not seen by you: suspects {suspects}; weapons {weapons}; rooms {rooms}"

    def _deductions(self, observation: Observation, notes: Notebook, since: int) -> Iterator[str]:
        """Yield all deductions, one line per holder; with `since`, only the lines that changed."""
        events = observation.events
        now = notes.sheet(events, len(events))
        # Before the deal there is nothing to compare with, so the first text has all lines.
        dealt = any(isinstance(event, HandDealt) for event in events[:since])
        before = notes.sheet(events, since) if dealt else None
        lines = []
        if before is None or not np.array_equal(_placed(now), _placed(before)):
            lines.append(self._unplaced_line(now))
        for holder in range(self.game.num_players):
            changed = before is None or not np.array_equal(now[:, holder], before[:, holder])
            if changed and holder != observation.player:
                lines.append(self._holder_line(now, holder))
        if lines or _may_accuse(observation):
            lines.append(self._envelope_line(now))
            yield "What follows:" if before is None else "What follows now:"
            yield from lines

    def _unplaced_line(self, possible: Possible) -> str:
        """Return the line of the cards without a certain place."""
        unplaced = np.array(self.game.deck.cards)[~_placed(possible)]
        return f"- cards not placed yet: {', '.join(unplaced) or 'none'}"

    def _holder_line(self, possible: Possible, holder: int) -> str:
        """Return the line of one seat, by the shorter list: possible or impossible cards."""
        cards, placed, here = np.array(self.game.deck.cards), _placed(possible), possible[:, holder]
        has, may, cannot = cards[here & placed], cards[here & ~placed], cards[~here & ~placed]
        parts = [f"has {', '.join(has)}"] if len(has) else []
        if len(may) and not len(cannot):
            parts.append("may have any of those not placed")
        # The shorter list is shown, which saves tokens.
        elif len(cannot) < len(may):
            parts.append(f"may have any of those not placed but {', '.join(cannot)}")
        elif len(may):
            parts.append(f"may have {', '.join(may)}")
        name, size = self.game.seat_names[holder], self.game.hand_sizes[holder]
        return f"- {name} ({pluralize(size, 'card')}): {'; '.join(parts)}"

    def _envelope_line(self, possible: Possible) -> str:
        """Return the line of the envelope's possible cards."""
        deck, parts = self.game.deck, []
        for kind, cards in zip(("suspect", "weapon", "room"), deck.categories, strict=True):
            left = [card for card in cards if possible[deck.index[card], -1]]
            parts.append(f"{kind} {'is ' if len(left) == 1 else 'one of '}{', '.join(left)}")
        return f"- envelope: {'; '.join(parts)}"


def _absent_cards(facts: Facts) -> dict[int, set[str]]:
    """Return per other player the unseen cards that it could not show, so does not hold."""
    absent: dict[int, set[str]] = {}
    for kind, players, named in facts.statements:
        unseen = {*named} - facts.seen
        if kind == "lacks" and unseen:
            for player in players:
                absent.setdefault(player, set()).update(unseen)
    absent.pop(facts.player, None)
    return absent


def _may_accuse(observation: Observation) -> bool:
    """Return whether the decision may be about the envelope; its cards are then repeated."""
    return bool(observation.legal_actions.of(Accuse))


def _placed(possible: Possible) -> NDArray[np.bool_]:
    """Return, per card, whether its place is certain; an open card has no holder."""
    placed: NDArray[np.bool_] = possible.sum(axis=1) <= 1
    return placed
