"""Bot of Hanabi with conventions; it uses its own observation only."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

from arena import Action, ActionSet, Decision, Event, Observation, Seat
from games.hanabi.deck import Kinds
from games.hanabi.knowledge import HanabiKnowledge
from games.hanabi.notes import HeldCard
from games.hanabi.rules import DiscardSlot, Hanabi, Hint, HintGiven, PlaySlot


class ConventionNotes(HanabiKnowledge):
    """The notes of one player with the agreed meaning of each hint.

    The conventions are the simple ones that bots and people share: a hint points at one card, its
    *focus*, which can be played now or must not be discarded. Bots with similar conventions are A.
    O'Dwyer's HolmesBot and SmartBot (https://github.com/Quuxplusone/Hanabi); SmartBot is a baseline
    of Bard et al. (2020). To read the reason of a hint from the hint goes back to H. Osawa,
    "Solving Hanabi: estimating hands by opponent's actions in cooperative game with incomplete
    information", AAAI Workshop on Computer Poker and Imperfect Information (2015).

    1. The *chop* of a hand is its oldest card that no hint has named. A player without a better
       move discards it.
    2. The focus of a hint is the chop if the hint names it, else the newest card that the hint
       names for the first time, else the newest card that it names.
    3. The focus can be played as soon as the cards that are known to come before it have been
       played. If it is on the chop, it may also be the last copy of a needed card.
    4. A named card can still score, and is no copy of another card that is known.

    All of this follows from public events, so every player computes the same meanings: the viewer
    changes only which cards of `hands` are visible.
    """

    def update(self, event: Event) -> None:
        if not isinstance(event, HintGiven):
            super().update(event)
            return
        # The meaning depends on what was known before the hint.
        focus, known = self.focus(event), self.known_kinds(range(self.game.num_players))
        wanted = self._wanted(event, focus, known)
        super().update(event)
        hand = list(self.hands[event.target])
        for place in (slot - 1 for slot in event.slots):
            kinds = self.candidates(hand[place])
            if place == focus:
                # If no wanted kind is possible, the hint breaks the convention and only informs.
                kinds = kinds & wanted or kinds
            # A known card needs no second hint; but this card may be the one that is known.
            if kinds.bit_count() > 1:
                kinds = kinds & ~known or kinds
            hand[place] = hand[place]._replace(meaning=kinds)
        self._set_hand(event.target, tuple(hand))

    def candidates(self, held: HeldCard, left: Kinds | None = None) -> Kinds:
        """Return the kinds that a card may have, by hints and conventions.

        `left` are the kinds that are possible at all; by default those that are not gone.
        """
        now = self.prospects
        possible = held.kinds & (now.left if left is None else left)
        # A contradiction shows that a convention was broken; hints are facts.
        possible = possible & held.meaning or possible
        # Rule 4: players do not name a useless card without need.
        return (possible & ~now.useless or possible) if held.hinted else possible

    def chop(self, player: int) -> int | None:
        """Return the place of the oldest card that no hint has named; None if there is none."""
        hand = self.hands[player]
        return next((place for place, held in enumerate(hand) if not held.hinted), None)

    def kind(self, held: HeldCard) -> Kinds:
        """Return the kind of a card that the viewer sees, as a set of one kind."""
        return 1 << self.game.deck.index[held.card or ""]

    def is_busy(self, player: int) -> bool:
        """Return whether a player believes it has a card to play, or a useless one to discard."""
        now, hand = self.prospects, map(self.candidates, self.hands[player])
        return any(not kinds & ~now.fitting or not kinds & ~now.useless for kinds in hand)

    def loses_last_copy(self, player: int) -> bool:
        """Return whether a player whose cards are seen will next discard a needed last copy."""
        chop = self.chop(player)
        if chop is None or self.is_busy(player):
            return False
        return bool(self.kind(self.hands[player][chop]) & self.prospects.last_copies)

    def focus(self, hint: HintGiven) -> int:
        """Return the place of the card that a hint points at, before the hint is added."""
        hand, named = self.hands[hint.target], [slot - 1 for slot in hint.slots]
        # A card that is named for the first time is the news of a hint.
        fresh = [place for place in named if not hand[place].hinted]
        chop = self.chop(hint.target)
        return chop if chop is not None and chop in fresh else (fresh or named)[-1]

    def known_kinds(self, players: Iterable[int], by_viewer: bool = False) -> Kinds:
        """Return the kinds of the cards in some hands that all players know, or the viewer."""
        known = 0
        for held in (held for player in players for held in self.hands[player]):
            # Cards without a hint are known by chance at most, and not to all players.
            if held.hinted:
                sees = by_viewer and held.card
                kinds = self.kind(held) if sees else self.candidates(held)
                known |= kinds if kinds.bit_count() == 1 else 0
        return known

    def _wanted(self, hint: HintGiven, focus: int, known: Kinds) -> Kinds:
        """Return the kinds that the focus of a hint may have: to be played, or to be saved."""
        ranks, wanted = self.game.deck.ranks, 0
        for colour, played in enumerate(self.fireworks):
            kinds = [1 << (colour * ranks + rank) for rank in range(played, ranks)]
            # Known cards will be played first, so the next one counts.
            wanted |= next((kind for kind in kinds if not kind & known), 0)
        # A card that is not on the chop is in no danger, so a hint on it never means to save it.
        return wanted | self.prospects.last_copies if focus == self.chop(hint.target) else wanted


class HanabiConventions:
    """Bot that gives and reads hints by the conventions of `ConventionNotes`.

    In this order: it saves a last copy that the next player would discard, plays a card that fits
    by convention, gives a hint that is worth its token, gambles in the last round, discards. It
    chooses the hint after which the receiver's beliefs, by the same conventions, are worth most.

    Mean scores of teams of this bot are 22.5, 23.0, 22.2 and 21.1 with 2 to 5 players, each ± 0.3:
    `arena eval hanabi --player bot:conventions --against bot:conventions --games 500 --seed 1`.
    Published scores of bots with similar conventions and 2 players are 20.8 (HolmesBot) and 23.1
    (SmartBot).
    """

    WORTH_GIVING = ((2, 6.0), (5, 3.0), (8, 1.0))
    """Least gain of a hint, by the largest number of tokens at which it holds."""

    def __init__(self, seat: Seat) -> None:
        assert isinstance(seat.game, Hanabi)
        self.player = seat.player
        self.notes = ConventionNotes(seat.game, seat.player)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        for event in observation.events_since(self._read):
            self.notes.update(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    def _choose(self, legal: ActionSet) -> Action:
        notes, now = self.notes, self.notes.prospects
        # All kinds with an unseen copy; other players cannot compute these for this hand.
        left = sum(1 << kind for kind, copies in enumerate(notes.unseen) if copies > 0)
        own = [notes.candidates(held, left) for held in notes.hands[self.player]]
        gain, hint, after = max(
            considered_hints(notes, legal), key=lambda each: each[0], default=(0.0, None, notes)
        )
        # A last copy is lost for good, while a play can wait for one turn.
        if hint and self._saves(gain, hint, after):
            return hint
        plays = [slot for slot, kinds in enumerate(own, 1) if not kinds & ~now.fitting]
        # A play costs no token; low cards let others be played.
        if plays:
            ranks = notes.game.deck.names_in
            return PlaySlot(min(plays, key=lambda slot: min(ranks(own[slot - 1])[1])))
        # The fewer tokens are left, the more a hint has to bring.
        least = next(least for most, least in self.WORTH_GIVING if notes.tokens <= most)
        if hint and gain >= least:
            return hint
        return self._gamble() or self._discard(legal, own) or hint or legal[0]

    def _saves(self, gain: float, hint: Hint, after: ConventionNotes) -> bool:
        """Return whether a hint keeps the next player from discarding a needed last copy."""
        # Only the next player acts before this one can give another hint.
        next_player = self.notes.game.others[self.player][0]
        if hint.target != next_player or gain < -LAST_COPY_AT_RISK / 2:
            return False
        return self.notes.loses_last_copy(next_player) and not after.loses_last_copy(next_player)

    def _gamble(self) -> Action | None:
        """Return a play that may fit, if nothing can be lost: in the last round, with a life left.

        Discards and hints have no use for this player any more.
        """
        if self.notes.deck or self.notes.lives == 1:
            return None
        # By exact knowledge only, since a card that fits by convention would have been played.
        fits = self.notes.chances(self.notes.prospects.fitting)
        return PlaySlot(int(fits.argmax()) + 1) if fits.max() > 0 else None

    def _discard(self, legal: ActionSet, own: Sequence[Kinds]) -> Action | None:
        """Return a discard: a useless card, the chop, or the card least likely to be missed."""
        if not legal.of(DiscardSlot):
            return None
        now, chop = self.notes.prospects, self.notes.chop(self.player)
        # All kinds that hints and conventions leave are useless.
        for place, kinds in enumerate(own):
            if not kinds & ~now.useless:
                return DiscardSlot(place + 1)
        # All cards were named by hints, so each of them may matter.
        if chop is None:
            chop = int(self.notes.chances(now.last_copies).argmin())
        return DiscardSlot(chop + 1)


# Value of a hint: what a hand is worth with what its owner believes, in points of a heuristic that
# were chosen by judgement; 10 is one card that will be played.

# Cards that their owner believes to fit, and that do or do not.
PLAYED, MISPLAYED = 10.0, -30.0
# Cards that their owner knows: it will play one later, it will discard the other.
KNOWN, USELESS_KNOWN = 5.0, 1.0
# A needed card about which its owner believes something false; a useless card or second copy that
# its owner keeps because of a hint.
MISLED, USELESS_KEPT = -12.0, -2.0
# On the chop: the last copy of a needed card, or a needed card of which there is another copy.
LAST_COPY_AT_RISK, NEEDED_AT_RISK = -12.0, -1.0
BUSY = 0.3
"""Weight of the chop's risk if its owner has a better move than to discard it."""
UNCERTAINTY = -0.2
"""Factor of the square root of the number of kinds that its owner believes possible."""


def considered_hints(
    notes: ConventionNotes, legal: ActionSet
) -> Iterator[tuple[float, Hint, ConventionNotes]]:
    """Yield for each legal hint the value that it adds, the hint, and the notes after it."""
    game, viewer = notes.game, notes.player
    # The value of each hand without a hint, computed once for all hints to it.
    before = {player: hand_value(notes, player) for player in game.others[viewer]}
    for hint in sorted(legal.of(Hint), key=lambda hint: hint.value not in game.deck.colour_names):
        hand = [held.card for held in notes.hands[hint.target]]
        after = copy.copy(notes)
        after.update(game.hint_given(viewer, hint, hand, notes.tokens - 1))
        yield hand_value(after, hint.target) - before[hint.target], hint, after


def hand_value(notes: ConventionNotes, player: int) -> float:
    """Return the value of a visible hand, given what its owner believes by public events."""
    # Kinds that other hands will provide; a second copy is of no use.
    claimed = notes.known_kinds(notes.game.others[player], by_viewer=True)
    total = _risk_of_chop(notes, player, claimed)
    for held in notes.hands[player]:
        total += _card_value(notes, held, claimed)
        # The second copy in one hand is as useless as one in two hands.
        if held.hinted:
            claimed |= notes.kind(held)
    return total


def _card_value(notes: ConventionNotes, held: HeldCard, claimed: Kinds) -> float:
    """Return the value of one card; `claimed` are the kinds of cards that were hinted before."""
    # The belief is public, the kind is what the giver of the hint sees.
    kind, believed = notes.kind(held), notes.candidates(held)
    now, is_copy = notes.prospects, bool(kind & claimed)
    is_useless = bool(kind & now.useless)
    value = 0.0 if is_useless else UNCERTAINTY * believed.bit_count() ** 0.5
    if not believed & ~now.fitting:  # The owner will play it.
        return value + (PLAYED if kind & now.fitting and not is_copy else MISPLAYED)
    if not believed & ~now.useless:  # The owner will discard it.
        return value + (USELESS_KNOWN if is_useless else MISLED)
    # Without a hint nothing is believed; `_risk_of_chop` judges the oldest of these cards.
    if not held.hinted:
        return value
    if is_useless or is_copy:
        return value + USELESS_KEPT
    if not kind & believed:  # The owner takes it for another card.
        return value + MISLED
    return value + (KNOWN if believed.bit_count() == 1 else 0.0)


def _risk_of_chop(notes: ConventionNotes, player: int, claimed: Kinds) -> float:
    """Return the value of the card that the player discards next; 0 if it has none."""
    chop, now = notes.chop(player), notes.prospects
    if chop is None:
        return 0.0
    # A player with a better move will not discard the chop now, but perhaps later.
    kind, weight = notes.kind(notes.hands[player][chop]), BUSY if notes.is_busy(player) else 1.0
    if kind & now.last_copies:
        return weight * LAST_COPY_AT_RISK
    return 0.0 if kind & (now.useless | claimed) else weight * NEEDED_AT_RISK
