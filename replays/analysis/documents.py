"""The documents of a study, as JSON: what the page is sent, and what an exported file holds.

Every document is made for a perspective: None (everything is open) or a seat, and then it holds
nothing that the seat could not know at some time of the game. What it could not know *yet* is for
the page to keep back: everything carries the ply from which on it may be shown.

Positions are numbered by plies: position 0 is the beginning, position k is after k plies, so ply n
(from 0) leads from position n to n + 1.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from arena.core.json import Json


class BranchJson(TypedDict):
    """Where a game left another one, to be played on by others."""

    parent: str
    """The name of the other game's file; empty in a seat's perspective."""
    ply: int
    players: NotRequired[list[str]]
    """Who sat there until then; not in the list of games."""
    seed: NotRequired[int]
    """Only where everything is open."""
    path: NotRequired[str | None]
    """Where the other file lies, if it is served as well; only where everything is open."""


class GameJson(TypedDict):
    """What is known of a game before it begins."""

    name: str
    title: str
    """One line: game, variant, players."""
    seats: list[str]
    """What the table calls each seat."""
    specs: list[str]
    """Who sits there."""
    options: dict[str, Json]
    text_level: str
    created: str
    """ISO 8601."""
    seed: NotRequired[int]
    """Only where everything is open: it gives the deal away."""
    branches: list[BranchJson]
    """Oldest first."""
    scene: str | None
    """The name of the module that draws the table, if the game has one."""
    knowledge: bool
    """Whether there are exact posteriors."""
    placed: bool
    """Whether they come as a grid."""


class EventJson(TypedDict):
    text: str
    """As the table talk tells it."""
    kind: str
    private: bool
    """Whether only some seats witnessed it."""
    audience: list[int] | None


class PlyJson(TypedDict):
    """One move and what came of it; of a hidden move only that there was one."""

    ply: int
    turn: int
    """In which it was made."""
    player: int | None
    """-1 for chance; None where the perspective may not know who moved."""
    action: str | None
    """None where the perspective may not know it."""
    events: list[EventJson]
    to_act: list[int]
    """Who must act after it, as far as the perspective may know."""
    asked: bool
    """Whether a model was asked: then there is a decision document."""
    failure: str | None
    """Why a fallback was played, if one was."""
    seconds: float | None


class OutcomeJson(TypedDict):
    status: str
    reason: str
    returns: list[float]
    winner: int | None
    turns: int


class StoryJson(TypedDict):
    """The game as it went. A running game's story is asked for again, from the next ply."""

    game: GameJson
    seat: int | None
    first: int
    """The ply with which `plies` begins."""
    plies: list[PlyJson]
    scenes: list[Json]
    """Of the positions `first` to the last; null stands for "as one position earlier"."""
    outcome: OutcomeJson | None
    """None while the game is running. The page shows it at the last position only."""
    notice: str | None
    """What a reader should know about the file: that it is unfinished, or cut off."""
    running: NotRequired[bool]
    """From a server: whether the game goes on, so that it is worth to ask again."""
    key: NotRequired[str]
    """From a server: what the file may be asked for by; unlike its name it tells nothing."""
    path: NotRequired[str]
    """From a server, and only where everything is open: what the file is called now."""


class KnownJson(TypedDict):
    """What a seat's view implies from this position on, until the next entry."""

    position: int
    bits: float
    """Uncertainty about what the game hides."""
    worlds: str
    """How many hidden worlds fit; a decimal number, which may be too large for a float."""
    grid: list[list[float]] | None
    """Probabilities: rows are things, columns places; None if the game has no grid."""


class KnowledgeJson(TypedDict):
    """One seat's exact posterior all through the game."""

    of: int
    things: list[str]
    kinds: list[str]
    """Of each thing, the heading that it stands under."""
    places: list[str]
    known: list[KnownJson]
    """Only the positions at which something has changed."""


class CommentJson(TypedDict):
    """What exact knowledge says of a ply."""

    ply: int
    """The ply that it judges."""
    found: int
    """The position from which on it may be shown."""
    player: int
    kind: str
    text: str
    mistake: bool
    facts: dict[str, Json]


class SeatSummaryJson(TypedDict):
    """One seat over the plies that are the game's own; shown at the last position.

    What was played before a branch, others have played.
    """

    player: int
    measures: list[MeasuredJson]
    mistakes: int


class MeasuredJson(TypedDict):
    title: str
    value: float
    unit: str
    better: Literal["higher", "lower"] | None


Part = tuple[Literal["same", "new", "gone"], str]
"""A stretch of a prompt, beside the seat's last one."""


class MessageJson(TypedDict):
    role: str
    parts: list[Part]
    sent_before: bool
    """Whether all of it was in the seat's last request already."""


class TokenJson(TypedDict):
    id: int | None
    logprob: float


class AttemptJson(TypedDict):
    """One request to a model, and its answer."""

    unchanged: int
    """So many messages at the beginning stood in the seat's last request; they are left out."""
    unchanged_characters: int
    messages: list[MessageJson]
    """Those after them."""
    more_messages: int
    """Messages that are left out because the document would be too long."""
    sampling: dict[str, Json]
    """Without the seed where not everything is open."""
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
    cached: bool
    seconds: float
    seconds_to_first_token: float | None
    tokens: list[TokenJson]
    more_tokens: int


class BeliefJson(TypedDict):
    """One thing that a model said it believes, beside what is exactly so."""

    about: str
    stated: str
    exact: str


class DecisionJson(TypedDict):
    """How a move came about: what was asked, what was answered."""

    ply: int
    player: int
    action: str
    failure: str | None
    seconds: float | None
    legal: list[str]
    """What was allowed, as text; at most 60, the rest is counted in `more_legal`."""
    more_legal: int
    attempts: list[AttemptJson]
    """The first 20, the rest is counted in `more_attempts`."""
    more_attempts: int
    beliefs: list[BeliefJson]
    other: dict[str, Json]
    """Whatever else the agent noted."""


class ListedJson(TypedDict):
    """One replay in the list."""

    path: str
    """Relative to the folder that is served, with slashes."""
    game: str
    variant: str | None
    players: list[str]
    created: str
    status: Literal["terminated", "truncated", "running", "unfinished", "unreadable"]
    """"unfinished": there is no outcome, and nothing is written any more."""
    reason: str
    winner: int | None
    returns: list[float]
    turns: int | None
    decisions: int | None
    bytes: int
    branch: BranchJson | None
    error: str | None
    """Why it cannot be opened."""


class ListJson(TypedDict):
    root: str
    games: list[ListedJson]
    more: int
    """Replays that are not listed because there are too many."""
