"""Episodes of several sessions: random joins, leaves and steps keep one game per episode."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.core.errors import ArenaError, UsageError
from arena.core.event import Ply
from arena.core.outcome import Outcome
from arena.core.state import State
from arena.envs import hosting as host_module
from arena.envs.hosting import HostedGame, SeatHandle, SharedEpisode, SharedEpisodes
from arena.episodes.match import Match, Watcher
from arena.episodes.record import Header
from arena.plugins.loader import make_game

GAME = make_game("goofspiel", players=3, cards=4)


class Ending:
    """Counts the games of each seed that have begun and that were closed."""

    begun: Counter[int]
    closed: Counter[int]

    def __init__(self) -> None:
        self.begun, self.closed = Counter(), Counter()

    def watchers(self, match: Match) -> Sequence[Watcher]:
        counter = self

        class Watching:
            def begin(self, header: Header, state: State) -> None:
                counter.begun[match.seed] += 1

            def ply(self, ply: Ply, state: State) -> None: ...
            def end(self, outcome: Outcome) -> None: ...
            def close(self) -> None:
                counter.closed[match.seed] += 1

        return [Watching()]


class Session:
    """One session: it joins with a token, and knows the game in which it plays."""

    def __init__(self) -> None:
        self.joining: asyncio.Task[SeatHandle] | None = None
        self.handle: SeatHandle | None = None
        self.seen: tuple[object, ...] = ()

    def leave(self) -> None:
        if self.joining is not None:
            self.joining.cancel()
        if self.handle is not None:
            self.handle.session.leave(self.handle.seat)
        self.joining = self.handle = None
        self.seen = ()

    def update(self) -> None:
        """Take what has arrived; what was seen before is never taken back."""
        if self.joining is not None and self.joining.done():
            task, self.joining = self.joining, None
            with suppress(ArenaError):
                self.handle = task.result()
        if self.handle is not None:
            events = self.handle.session.observe(self.handle.seat).events
            assert events[: len(self.seen)] == self.seen, "the game was replaced"
            self.seen = events

    def step(self, rng: random.Random) -> None:
        if self.handle is None or self.handle.session.is_over:
            return
        with suppress(UsageError):  # Another seat must decide.
            awaited = self.handle.session.awaited(self.handle.seat)
            self.handle.session.act(self.handle.seat, rng.choice(awaited.legal_actions))


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def work(operations: Sequence[tuple[str, int, int]], seed: int) -> None:
    rng, counts = random.Random(seed), Ending()
    host = HostedGame(GAME, ["bot:random"], watchers=counts.watchers, join_seconds=60.0)
    episodes, opened = SharedEpisodes(host), list[SharedEpisode]()
    sessions = [Session() for _ in range(4)]
    for kind, number, choice in operations:
        session = sessions[number]
        if kind == "open":
            seats = rng.sample(range(3), 1 + choice % 3)
            opened.append(episodes.open(seats, 1000 + len(opened)))
        elif kind == "join" and opened:
            session.leave()
            token = rng.choice([*opened[choice % len(opened)].tokens.values()])
            session.joining = asyncio.ensure_future(episodes.join(token))
        elif kind == "leave":
            session.leave()
        elif kind == "step":
            session.step(rng)
        await settle()
        for each in sessions:
            each.update()
        # One game per episode, whatever its sessions do.
        assert all(count == 1 for count in counts.begun.values())
        seats_of: dict[int, list[int]] = {}
        for each in sessions:
            if each.handle is not None:
                seats_of.setdefault(id(each.handle.session), []).append(each.handle.seat)
        assert all(len(set(seats)) == len(seats) for seats in seats_of.values())
    for each in sessions:
        each.leave()
    await settle()
    # A game without sessions is ended, so that its watchers are closed.
    assert counts.closed == counts.begun


OPERATIONS = st.tuples(
    st.sampled_from(["open", "join", "join", "join", "leave", "step", "step", "step"]),
    st.integers(0, 3),
    st.integers(0, 9),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(OPERATIONS, max_size=60), st.integers(0, 9))
def test_joins_leaves_and_steps_keep_one_game_per_episode(
    operations: list[tuple[str, int, int]], seed: int
) -> None:
    asyncio.run(work([("open", 0, 1), *operations], seed))


def test_the_seat_of_a_leaver_is_played_to_the_end() -> None:
    async def leave_and_go_on() -> None:
        counts = Ending()
        host = HostedGame(GAME, ["bot:random"], watchers=counts.watchers)
        episodes = SharedEpisodes(host)
        tokens = episodes.open([0, 2], 5).tokens
        first, second = await asyncio.gather(*(episodes.join(tokens[seat]) for seat in (0, 2)))
        assert first.session is second.session
        second.session.leave(2)
        # Neither token opens a seat of the game, now or later.
        for token in tokens.values():
            with pytest.raises(UsageError, match="no seat waits for this token"):
                await episodes.join(token)
        while not first.turn.is_over:
            first.session.act(0, first.turn.observation.legal_actions[0])
            first.turn = await first.session.turn(0)
        episode = first.session.episode
        assert episode.outcome.status == "terminated" and counts.begun == {5: 1}
        assert {failure.player for failure in episode.failures} == {2}

    asyncio.run(leave_and_go_on())


def test_a_seat_is_free_again_if_its_session_leaves_before_the_game() -> None:
    async def come_back() -> None:
        episodes = SharedEpisodes(HostedGame(GAME))
        tokens = episodes.open([0, 1], 5).tokens
        waiting = asyncio.ensure_future(episodes.join(tokens[0]))
        await settle()
        waiting.cancel()
        await settle()
        both = await asyncio.gather(*(episodes.join(token) for token in tokens.values()))
        assert both[0].session is both[1].session
        await both[0].session.close()

    asyncio.run(come_back())


def test_episodes_that_nobody_joins_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MOST_OPEN", 4)

    async def open_many() -> None:
        episodes = SharedEpisodes(HostedGame(GAME, join_seconds=0.05))
        for _ in range(2):
            episodes.open([0, 1])
        with pytest.raises(UsageError, match="4 seats wait for their sessions"):
            episodes.open([0])
        await asyncio.sleep(0.06)
        token = episodes.open([0, 1]).tokens[0]
        with pytest.raises(ArenaError, match="only 1 of 2 sessions have joined 0.05 seconds"):
            await episodes.join(token)

    asyncio.run(open_many())
