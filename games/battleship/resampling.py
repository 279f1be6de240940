"""Other fleets that a player cannot tell from the true one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from arena import Step
from games.battleship.board import Fleet, Ship, has_room, union
from games.battleship.events import PlaceFleet, PlaceShip, ShotFired
from games.battleship.shot_record import ShotRecord

if TYPE_CHECKING:
    from games.battleship.game import Battleship

SWEEPS = 3
"""Times that each ship is drawn again."""


def resample(
    game: Battleship, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return a history with another fleet of the other player that fits all that `player` saw.

    A Gibbs sampler: one ship at a time is drawn again, evenly among the places that fit the other
    ships and the results of all shots. The even distribution over all fleets that fit is its
    stationary distribution.
    """
    state = game.initial_state()
    for step in history:
        state.apply(step.player, step.action)
    if state.is_terminal:  # Both fleets are revealed.
        return list(history)
    other = 1 - player
    # A ship that is sealed in this round is in the history and must be drawn again too.
    sealed = tuple(ship for seat, ship in state.sealed if seat == other)
    record = ShotRecord(game.board, game.options.ships, game.options.announce_sunk)
    for event in state.log.witnessed[player]:
        if isinstance(event, ShotFired) and event.player == player:
            record.add(event)
    fleet = state.fleets[other] + sealed
    # The true fleet is a valid start; each step keeps the results of all shots.
    for _ in range(SWEEPS):
        for number in rng.sample(range(len(fleet)), len(fleet)):
            fleet = _redraw(fleet, number, record, rng)
    return list(_with_fleet(history, other, [ship.name for ship in fleet]))


def _redraw(fleet: Fleet, number: int, record: ShotRecord, rng: random.Random) -> Fleet:
    """Return the fleet with one ship drawn again. The current place always fits."""

    def with_ship(ship: Ship) -> Fleet:
        return (*fleet[:number], ship, *fleet[number + 1 :])

    occupied = union(fleet[:number]) | union(fleet[number + 1 :])
    later = record.lengths[len(fleet) :]
    places = [
        ship
        for ship in record.board.ships[fleet[number].length]
        # During placement the ships that are still to come need room.
        if not ship.zone & occupied
        and record.allows(with_ship(ship))
        and has_room(record.board, later, occupied | ship.mask)
    ]
    return with_ship(rng.choice(places))


def _with_fleet(history: Sequence[Step], owner: int, names: Sequence[str]) -> Iterator[Step]:
    """Yield a history in which `owner` has the ships of these names."""
    # Sealed placements come in the order of the ships, whatever the other player did between.
    placed = 0
    for step in history:
        match step.action:
            case PlaceFleet(player) if player == owner:
                yield Step(step.player, PlaceFleet(owner, tuple(names)))
            case PlaceShip() if step.player == owner:
                yield Step(owner, PlaceShip(names[placed]))
                placed += 1
            case _:
                yield step
