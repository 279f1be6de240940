"""JSON documents of an analysis: answers of the web server, and content of exported files.

Every document is made for one perspective: None (everything is open) or a seat. The document of a
seat holds nothing that the seat could not know at some time of the game. Facts that it could not
know *yet* are held back by the viewer: each entry carries the position from which it may be shown.

Positions are numbered by plies: position 0 is the beginning, position k is after k plies, so ply n
(from 0) leads from position n to n + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from pydantic import JsonValue

SceneJson = Mapping[str, object] | str | None
"""JSON object of a game's scene, or a diagram as text; null means unchanged since the position
before, or nothing to draw."""


class BranchJson(TypedDict):
    """Point at which the game was branched off another game."""

    parent: str
    """File name of the other game; empty in a seat's perspective."""
    ply: int
    players: NotRequired[list[str]]
    """SPECs of the players until then; not in the list of games."""
    seed: NotRequired[int]
    """Only if everything is open."""


class FactJson(TypedDict):
    """Description of a fact of comments and rankings."""

    unit: str
    about: str


class GameFactsJson(TypedDict):
    """Facts of a game that do not depend on who plays it."""

    name: str
    title: str
    """One line: game, variant, players."""
    seats: list[str]
    """Name of each seat in the game's texts."""
    options: dict[str, JsonValue]
    scene: str | None
    """Name of the module that draws the table, if the game has one."""
    has_posterior: bool
    """The game computes exact posteriors."""
    has_grid: bool
    """The posteriors come as a grid of things and places."""


class GameJson(GameFactsJson):
    """Facts of a recorded game that are known before it starts."""

    specs: list[str]
    """SPEC of each seat's player."""
    names: list[str]
    """Name of each player for people; texts number the players from 0."""
    text_level: str
    created: str
    """ISO 8601."""
    seed: NotRequired[int]
    """Only if everything is open, because the seed determines the deal."""
    branches: list[BranchJson]
    """Oldest first."""
    has_rankings: bool
    """The game computes exact values of moves."""
    facts: dict[str, FactJson]
    """Descriptions by the name of the fact."""


class EventJson(TypedDict):
    """One event that the perspective witnesses."""

    text: str
    """The game's narration."""
    kind: str
    """Class name of the event."""
    private: bool
    """Only some seats witness it."""
    audience: list[int] | None


class PlyJson(TypedDict):
    """One ply and its events. Of a hidden move, only its existence is shown."""

    ply: int
    turn: int
    """The turn in which it was made."""
    player: int | None
    """-1 for chance; None if the perspective may not know who moved."""
    action: str | None
    """None if the perspective may not know it."""
    events: list[EventJson]
    to_act: list[int]
    """The players who must act after it, as far as the perspective may know."""
    has_requests: bool
    """There is a request to a model, so the decision document has content."""
    failure: str | None
    """Reason for the fallback, if one was played."""
    seconds: float | None


class OutcomeJson(TypedDict):
    """Outcome of a finished game."""

    status: str
    reason: str
    returns: list[float]
    winners: list[int]
    """The winner, or the seats of the team that has won."""
    score: float | None
    """The common score in a game that is not won."""
    turns: int


class TimelineJson(TypedDict):
    """Course of the game. The page repeats the request for a running game, from the next ply."""

    game: GameJson
    seat: int | None
    first: int
    """Number of the first ply in `plies`."""
    plies: list[PlyJson]
    scenes: list[SceneJson]
    """Scenes of position `first` to the last."""
    outcome: OutcomeJson | None
    """None while the game is running. The page shows it at the last position only."""
    notice: str | None
    """Remark on the file: it is unfinished, or cut off."""
    running: NotRequired[bool]
    """True while the game is written; from a server only."""
    can_play: NotRequired[bool]
    """The server lets people play on from a position."""
    key: NotRequired[str]
    """Identifier of the file, from a server only; unlike its name, it reveals nothing."""
    path: NotRequired[str]
    """Current path of the file, from a server and only if everything is open."""


class PosteriorEntryJson(TypedDict):
    """Posterior of a seat from this position until the next entry."""

    position: int
    bits: float
    """Entropy of the hidden information."""
    worlds: str
    """Number of consistent worlds; a decimal number, which may be too large for a float."""
    grid: list[list[float]] | None
    """Probabilities: rows are things, columns places; None if the game has no grid."""


class PlacementJson(TypedDict):
    """Names of the rows and columns of a grid; empty for a game without one."""

    things: list[str]
    kinds: list[str]
    """Group heading of each thing."""
    places: list[str]


class PosteriorJson(PlacementJson):
    """Exact posterior of one seat for the whole game."""

    player: int
    entries: list[PosteriorEntryJson]
    """Only the positions at which something has changed."""


class CommentJson(TypedDict):
    """Comment on a ply, derived from exact knowledge."""

    ply: int
    """The ply that it judges."""
    visible_from: int
    """The position from which it may be shown."""
    player: int
    kind: str
    text: str
    mistake: bool
    facts: dict[str, JsonValue]


class MeasureJson(TypedDict):
    """Value of one measure for one seat."""

    title: str
    value: float
    unit: str
    better: Literal["higher", "lower"] | None


class SeatSummaryJson(TypedDict):
    """Summary of one seat, shown at the last position.

    Plies before a branch are not counted, because other agents may have played them.
    """

    player: int
    measures: list[MeasureJson]
    mistakes: int


class MessageJson(TypedDict):
    """One message of a request, compared with the seat's previous request."""

    role: str
    text: str
    sent_before: bool
    """The whole message was in the seat's previous request."""


class AttemptJson(TypedDict):
    """One request to a model, and its answer."""

    unchanged: int
    """Number of leading messages that are left out: the previous request had the same."""
    unchanged_characters: int
    messages: list[MessageJson]
    """The messages after those."""
    more_messages: int
    """Messages that are left out because of the size limit."""
    sampling: dict[str, JsonValue]
    """Without the seed in a seat's perspective."""
    reply: str
    reasoning: str
    refusal: str
    finish_reason: str
    failure: str | None
    excerpt: str
    cause: str | None
    model: str
    policy_version: int | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    seconds: float


class DecisionJson(TypedDict):
    """One decision: the requests to the model, its answers and the legal actions."""

    ply: int
    player: int
    action: str
    failure: str | None
    seconds: float | None
    legal: list[str]
    """The first legal actions as text; `more_legal` counts the others."""
    more_legal: int
    attempts: list[AttemptJson]
    """The first attempts; `more_attempts` counts the others."""
    more_attempts: int
    other: dict[str, JsonValue]
    """All other details that the agent recorded, for example stated beliefs."""


class RankedMoveJson(TypedDict):
    """One legal move with its value."""

    action: str
    value: float
    alike: int
    """Number of further moves with this value."""


class PlayedMoveJson(TypedDict):
    """The move that was played, among the ranked ones."""

    action: str
    value: float
    rank: int
    """1 + the number of better moves."""


class RankingJson(TypedDict):
    """Legal moves of one kind, the best first."""

    moves: str
    """Plural of what is ranked, e.g. `questions`."""
    unit: str
    """Unit of the values: `bits`, `%` (the value is a share from 0 to 1)."""
    about: str
    """Description of the value."""
    best: list[RankedMoveJson]
    count: int
    """Number of all ranked moves."""
    played: PlayedMoveJson | None
    """None if another kind of move was played."""


class MoveAnalysisJson(TypedDict):
    """Exact values of the moves that a seat could make in one position, by what it knew."""

    position: int
    player: int
    rankings: list[RankingJson]


class ListedReplayJson(TypedDict):
    """One replay in the list."""

    path: str
    """Relative to the served folder, with slashes."""
    game: str
    title: str
    """The game's name in headings."""
    variant: str | None
    players: list[str]
    names: list[str]
    """Name of each player for people, as in `reason`."""
    created: str
    status: Literal["terminated", "truncated", "running", "unfinished", "unreadable"]
    """"unfinished": there is no outcome, and the file is no longer written."""
    reason: str
    winners: list[int]
    is_draw: bool
    """The game is over, and no player or team has won more than the others."""
    returns: list[float]
    turns: int | None
    decisions: int | None
    bytes: int
    branch: BranchJson | None
    error: str | None
    """Reason why it cannot be opened."""


class ReplayListJson(TypedDict):
    """Part of the list of replays in the served folder."""

    root: str
    games: list[ListedReplayJson]
    """Games from `offset` on."""
    offset: int
    found: int
    """Replays that match the query."""
    all: int
    unread: int
    """Files that were found but not read yet."""
    players: list[str]
    names: list[str]
    """The games of all replays."""
    single: bool
    """True if one replay is served, not a folder."""
    can_play: NotRequired[bool]
    """The server lets people start games."""
    folder: NotRequired[str]
    """If there is no replay: the folder as the user typed it, quoted for a shell."""
