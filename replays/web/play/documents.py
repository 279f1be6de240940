"""Messages between the page of a game and the server."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from replays.analysis.documents import GameFactsJson, PlacementJson, PosteriorEntryJson, SceneJson

Help = Literal["none", "notes", "deductions", "posterior"]
"""Help beside the game, from none to the exact probabilities; each includes those before it."""
HELP_LEVELS: tuple[Help, ...] = ("none", "notes", "deductions", "posterior")

MAX_ANSWER = 2_000
"""Characters of an action or a speech as a person writes it."""
MAX_NAME = 100
"""Characters that are read of a name; `arena.agents.names` says which names are taken."""


class SeatMessage(BaseModel):
    """A message from the page of a seat: a move, help or a name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    act: Annotated[str, Field(max_length=MAX_ANSWER)] | None = None
    """The action as text; with `turn`, the number of the decision that it answers."""
    turn: Annotated[int, Field(ge=0)] | None = None
    sure: bool = False
    """The person has confirmed an irrevocable action."""
    help: Help | None = None
    advise: bool = False
    """Show what a strong player would do; with `turn`."""
    skip: bool = False
    """The only person is out of the game, and wants to see its end at once."""
    name: Annotated[str, Field(max_length=MAX_NAME)] | None = None
    """The person's name from now on."""


class KindJson(TypedDict):
    """Legal actions of one kind: the same verb and fields."""

    name: str
    verb: str
    fields: list[str]
    actions: list[list[str]]
    """Text of each action, then the value of each field."""


class SpeechJson(TypedDict):
    """A kind of speech that is legal now."""

    verb: str
    form: str
    max_length: int


class TurnJson(TypedDict):
    """A decision that the seat must take now."""

    number: int
    kinds: list[KindJson]
    speech: list[SpeechJson]
    left_out: int
    """Legal actions that are too many to be listed; all of them can be typed."""
    usual: str | None
    """The action that Enter plays, if there is an obvious one."""
    until: float | None
    """End of the time for this decision, in seconds since 1970."""


class SeenEventJson(TypedDict):
    """An event that the viewer has witnessed, in words that address the viewer."""

    text: str
    private: bool


class PosteriorNowJson(PlacementJson):
    """Exact probabilities of the seat now."""

    entry: PosteriorEntryJson


class OverJson(TypedDict):
    """The end of the game."""

    text: str
    won: bool | None
    """None for a spectator, and where no one can win."""
    scores: list[float]
    """Returns in `unit`, such as chips; without a unit, 1 for each winner and 0 for the others."""
    unit: str
    replay: str | None
    """Fragment of the address of the replay in the viewer, if this server shows it."""


class PartsJson(TypedDict):
    """What the page shows now beside the events; only parts that have changed are sent."""

    scene: SceneJson
    before: SceneJson
    """The scene before the latest event that has changed it."""
    turn: TurnJson | None
    names: list[str]
    """The name of each player for people. All other texts number players from 0."""
    present: list[bool | None]
    """True for each person's seat whose page is open; None for other players."""
    help: Help
    notes: str
    posterior: PosteriorNowJson | None
    over: OverJson | None
    error: str | None
    """Why the game has stopped without an end."""


class WebGameJson(GameFactsJson):
    """Facts of a game that never change."""

    specs: list[str]
    rules: str
    guide: GuideJson | None
    hints: list[tuple[str, str]]
    """Hints of a guided game: pairs of the verb of an action and a text, in this order."""
    gives_advice: bool
    """The page may ask for the move of a strong player."""
    sheet: PlacementJson | None
    """Rows and columns of the seat's own sheet, if the game has one."""
    offered_help: list[Help]
    """Levels of help that this game allows."""


class GuideJson(TypedDict):
    """Rules for people."""

    goal: str
    turn: str
    end: str
    example: str


class HintJson(TypedDict):
    """What a strong player would do."""

    player: str
    action: str
    why: str
    """Consequence of the action; empty if the game does not say."""


class UpdateJson(TypedDict):
    """A message to the page."""

    now: float
    """The server's clock, in seconds since 1970."""
    table: NotRequired[WebGameJson]
    """Part of the first message."""
    seat: NotRequired[int | None]
    """Seat, in the first message; null for a spectator."""
    first: NotRequired[int]
    """Number of the first of `events`."""
    events: NotRequired[list[SeenEventJson]]
    parts: NotRequired[dict[str, object]]
    """Entries of `PartsJson` that have changed."""


class AnswerJson(TypedDict):
    """The answer to a message that was not simply carried out."""

    error: NotRequired[str]
    offer: NotRequired[str]
    """An action that may have been meant."""
    hint: NotRequired[HintJson]
    confirm: NotRequired[str]
    """An irrevocable action, which needs `sure`."""
