"""Texts of Cluedo: rules, narration of events, the situation of a player, and synonyms.

Models read these texts. Trained checkpoints depend on the exact wording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import Action, ActionSet, Event, GameText, Observation, PlayGuide, TextLevel
from arena.core.text import pluralize
from games.cluedo.analysis.beliefs import belief_question, read_beliefs
from games.cluedo.facts import Facts
from games.cluedo.inference.knowledge import Notebook, Possible
from games.cluedo.rules import board
from games.cluedo.rules.board import Place
from games.cluedo.rules.setting import (
    Accuse,
    Accused,
    CardShown,
    CluedoSetting,
    Dealt,
    DiceThrown,
    EndTurn,
    EnvelopeSeen,
    HandDealt,
    Move,
    Passage,
    PawnMoved,
    PawnMovement,
    Refuted,
    Roll,
    Show,
    Suggest,
    Suggested,
    TurnBegan,
    Unable,
    WeaponMoved,
)
from games.cluedo.view import play_guide

WAYS: dict[PawnMovement, str] = {
    "walks": "goes to",
    "passage": "takes the passage to",
    "summoned": "is brought to",
    "steps aside": "steps aside into",
}


_SUGGESTION = (
    "Suggestion: the others are asked in turn order from your left. The first who holds "
    "one of the three cards must show you one of them, secretly; everybody sees who showed, not "
    "what. Whoever is passed over holds none of the three."
)

_MOVEMENT = (
    "throw two dice and move toward a room, or take a secret passage (Study - Kitchen, "
    "Conservatory - Lounge)."
)


def _pawns(game: CluedoSetting) -> str:
    """Return which player moves which pawn."""
    pairs = zip(game.seat_names, game.deck.suspects, strict=False)
    return ", ".join(f"{name} plays {suspect}" for name, suspect in pairs)


class CluedoText(GameText):
    """Texts of Cluedo."""

    game: CluedoSetting
    notes_type = Notebook
    table_shows_notes = True

    def rules(self) -> str:
        game, deck = self.game, self.game.deck
        lines = [
            f"Cluedo, {game.num_players} players (Player 0 to Player {game.num_players - 1}). One "
            "suspect, one weapon and one room lie in an envelope; name all three to win. The other "
            "cards are dealt to the players.",
            f"Suspects: {', '.join(deck.suspects)}.",
            f"Weapons: {', '.join(deck.weapons)}.",
            f"Rooms: {', '.join(deck.rooms)}.",
            _SUGGESTION,
            "Accusation: ends your turn. If it is right you win. If it is false you make no more "
            "moves and only show cards.",
        ]
        if game.has_board:
            lines.append(
                f"Board: {_pawns(game)}. On your turn {_MOVEMENT} In a room you "
                "may make one suggestion, which must name that room; the suspect's pawn and the "
                "weapon are brought there."
            )
            if game.options.summoned_may_suggest:
                lines[-1] += (
                    " A player whose pawn was brought to a room may suggest without moving."
                )
            order = "roll or take a passage, suggest, then accuse or end your turn"
        else:
            order = "suggest any three cards, then accuse or end your turn"
        lines.append(f"Your turn: {order}. Answer with one action, in the words you are given.")
        return "\n".join(lines)

    def rule_details(self) -> str:
        # No part of `rules`, whose wording trained checkpoints depend on.
        return (
            "To refute a suggestion means to show one of its cards; a player who cannot refute it "
            "holds none of the three. The last player left must still accuse correctly to win."
        )

    def synonyms(self) -> Mapping[str, str]:
        """Return phrase -> the game's own words, for the cards of this deck."""
        # Later entries win, so verbs outweigh a card phrase of the same words.
        phrases_to_own = dict(_card_synonyms(self.game))
        for own, phrases in (VERBS | (BOARD_VERBS if self.game.has_board else {})).items():
            phrases_to_own.update(dict.fromkeys(phrases, own))
        phrases_to_own.update(dict.fromkeys(END_PHRASES, "end turn"))
        phrases_to_own.update(dict.fromkeys(IDLE_WORDS, ""))
        return phrases_to_own

    def guide(self) -> PlayGuide:
        return play_guide(self.game)

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


# Forms of actions


def describe_place(place: Place) -> str:
    """Return a room or a corridor square in words; rows and columns count from 1."""
    if isinstance(place, str):
        return f"the {place}"
    row, column = divmod(place, board.COLUMNS)
    return f"the corridor (row {row + 1}, column {column + 1})"


def action_prompt(
    game: CluedoSetting, legal: ActionSet, facts: Facts, with_example: bool
) -> Iterator[str]:
    """Yield the legal actions as a grammar instead of a list of hundreds."""
    first = legal[0]
    if isinstance(first, Show):
        player, choices = game.seat_names[facts.in_turn], " | ".join(map(str, legal))
        assert facts.suggestion is not None
        yield f"{player} suggested {facts.suggestion.triple}. Show one of your cards: {choices}."
        return
    if isinstance(first, Move):
        yield from _move_prompt(legal, facts, with_example)
        return
    forms = [str(action) for action in (*legal.of(Roll), *legal.of(Passage))]
    suggestions = legal.of(Suggest)
    if suggestions:
        # With a board, all suggestions name the room of the pawn; without one, they name all rooms.
        one_room = suggestions[0].room == suggestions[-1].room
        forms.append(f"suggest SUSPECT, WEAPON, {suggestions[0].room if one_room else 'ROOM'}")
    if legal.of(Accuse):
        forms.append("accuse SUSPECT, WEAPON, ROOM")
    forms += map(str, legal.of(EndTurn))
    example = suggestions[0] if suggestions else first
    yield _action_line(" | ".join(forms), example, with_example)


def _action_line(forms: str, example: Action, with_example: bool) -> str:
    return f"Your action: {forms}." + (f" For example: {example}" if with_example else "")


def _move_prompt(legal: ActionSet, facts: Facts, with_example: bool) -> Iterator[str]:
    """Yield the rooms within reach, the steps to each room, and the form of the action."""
    place, throw = facts.place, sum(facts.dice)
    reachable = [
        move.room
        for move in legal.of(Move)
        if board.walk(place, move.room, throw, facts.other_squares).enters
    ]
    reach = f"you reach {', '.join(reachable) or 'no room'}"
    steps = sorted((board.steps_to(place, move.room), move.room) for move in legal.of(Move))
    yield (
        f"You are in {describe_place(place)}. With {throw} {reach}; toward any other room "
        f"you go as far as you can. Steps: {', '.join(f'{room} {n}' for n, room in steps)}."
    )
    yield _action_line("move ROOM", legal[0], with_example)


# Synonyms


# Each key is a part of the name of exactly one card, in either edition.
SUSPECTS: dict[str, tuple[str, ...]] = {
    "Scarlet": ("Scarlet", "Scarlett", "Scarlette"),
    "Mustard": ("Mustard",),
    "White": ("White",),
    "Green": ("Green",),
    "Peacock": ("Peacock",),
    "Plum": ("Plum",),
}
TITLES = (
    *("Miss", "Ms", "Mrs", "Mr", "Colonel", "Col", "Professor", "Prof", "Dr"),
    *("Reverend", "Rev", "Reverend Mr", "Rev Mr"),
)

OBJECTS: dict[str, tuple[str, ...]] = {
    "Candlestick": ("candle stick", "candlesticks", "candle"),
    "Dagger": ("knife",),
    "Knife": ("dagger",),
    "Lead Pip": ("lead pipe", "lead piping", "leadpipe", "leadpiping", "pipe", "piping"),
    "Revolver": ("gun", "pistol", "handgun"),
    "Spanner": ("wrench",),
    "Wrench": ("spanner",),
    "Kitchen": ("kitchens",),
    "Ballroom": ("ball room",),
    "Billiard": ("billiard", "billiards", "billiards room", "billiardroom", "billiardsroom"),
    "Dining": ("dining", "diningroom", "dinning room"),
}
VERBS: dict[str, tuple[str, ...]] = {
    "suggest": ("suggestion", "suggests", "suggesting", "propose", "guess"),
    "accuse": ("accusation", "accuses", "accusing"),
    "show": ("reveal", "shows", "showing", "revealing"),
}
BOARD_VERBS: dict[str, tuple[str, ...]] = {
    "move": ("go", "walk", "enter", "moving", "going", "head"),
    "roll": ("roll dice", "throw", "throw dice", "throw two dice", "rolling"),
    "passage": ("secret passage", "passageway"),
}
IDLE_WORDS = ("murder", "crime", "committed", "committing")
"""Words that change nothing in a suggestion: "the murder was committed by Mrs White"."""
END_PHRASES = (
    *("end", "ends turn", "ending turn", "finish turn", "endturn", "end turn now"),
    *("pass", "pass turn", "skip", "skip turn", "done", "finished"),
)


def _card_synonyms(game: CluedoSetting) -> Iterator[tuple[str, str]]:
    """Yield pairs of phrase and card."""
    for card in game.deck.cards:
        for part, names in SUSPECTS.items():
            if part in card:
                yield from ((name, card) for name in names)
                yield from ((f"{title} {name}", card) for title in TITLES for name in names)
        for part, phrases in OBJECTS.items():
            if part in card:
                yield from ((phrase, card) for phrase in phrases)
