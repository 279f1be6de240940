"""The flags about models: which one plays, how it is spoken to, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from arena.cli.flags import Flag
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.prompt import ChatOptions
    from arena.service import LLMService

PANEL = "Models"

BackendFlag = Annotated[
    str | None,
    Flag(
        help="BACKEND or BACKEND:MODEL: takes the first seat that no --seat names, and every seat "
        "that is named 'model'. Environment: LLM_BACKEND.",
        rich_help_panel=PANEL,
    ),
]
ChatFlag = Annotated[
    str,
    Flag(
        help="append: the chat grows by what is new; fresh: it is told anew at each decision.",
        rich_help_panel=PANEL,
    ),
]
AnswersFlag = Annotated[
    str,
    Flag(
        help="text, or json: a JSON object, by schema where the provider can.",
        rich_help_panel=PANEL,
    ),
]
GuidedFlag = Annotated[
    bool,
    Flag(
        "--guided/--free",
        help="Let the backend allow legal actions only, where it can.",
        rich_help_panel=PANEL,
    ),
]
AttemptsFlag = Annotated[
    int,
    Flag(min=1, max=20, help="Replies per decision until the fallback.", rich_help_panel=PANEL),
]
FallbackFlag = Annotated[
    str,
    Flag(
        help="For a decision without a legal reply: random (a harmless legal move), forfeit (the "
        "same for the rest of the game) or stop (the run ends).",
        rich_help_panel=PANEL,
    ),
]
BeliefsFlag = Annotated[
    bool,
    Flag(
        "--beliefs",
        help="Also ask what the model believes, and score it (costs a call per decision).",
        rich_help_panel=PANEL,
    ),
]
LogprobsFlag = Annotated[
    bool,
    Flag(
        "--logprobs",
        help="Keep token ids and log-probabilities in the replay.",
        rich_help_panel=PANEL,
    ),
]
TemperatureFlag = Annotated[
    float, Flag(min=0, max=2, help="Sampling temperature.", rich_help_panel=PANEL)
]
TopPFlag = Annotated[float, Flag(min=0.01, max=1, help="Nucleus sampling.", rich_help_panel=PANEL)]
AnswerTokensFlag = Annotated[
    int,
    Flag(
        min=1, max=10**6, help="Longest reply, in tokens, thinking included.", rich_help_panel=PANEL
    ),
]
MaxCostFlag = Annotated[
    float | None,
    Flag(min=0, help="US dollars: no call is made that would exceed it.", rich_help_panel=PANEL),
]
MaxTokensFlag = Annotated[
    int | None, Flag(min=1, help="The same, in tokens of the run.", rich_help_panel=PANEL)
]
CacheFlag = Annotated[
    Path | None,
    Flag(help="SQLite file: an equal request is answered from it.", rich_help_panel=PANEL),
]
AtOnceFlag = Annotated[int, Flag(min=1, max=10_000, help="Games played at once.")]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """The flags, as given."""

    backend: str | None
    chat: str
    answers: str
    guided: bool
    max_attempts: int
    fallback: str
    beliefs: bool
    logprobs: bool
    temperature: float
    top_p: float
    answer_tokens: int
    max_cost: float | None
    max_tokens: int | None
    cache: Path | None

    def options(self) -> ChatOptions:
        """Raises UsageError for a word that is none of those to choose from."""
        from arena.backend import Sampling
        from arena.prompt import AnswerForm, ChatMode, ChatOptions, Fallback

        one_of("--chat", self.chat, ChatMode)
        one_of("--answers", self.answers, AnswerForm)
        one_of("--fallback", self.fallback, Fallback)
        return ChatOptions(
            self.chat,  # type: ignore[arg-type]
            self.answers,  # type: ignore[arg-type]
            self.guided,
            self.max_attempts,
            self.fallback,  # type: ignore[arg-type]
            self.beliefs,
            self.logprobs,
            Sampling(self.temperature, self.top_p, self.answer_tokens),
        )

    def seat(self, specs: list[str], free: list[int]) -> list[str]:
        """Put the model on its seats; `free` are those that no --seat names."""
        from arena.agent import shown
        from arena.registry import catalog
        from arena.settings import Settings

        backend = self.backend or Settings.load().llm_backend
        wanted = [seat for seat, spec in enumerate(specs) if spec == "model"]
        # What the environment says takes no seat from a table that was set by hand.
        if backend and not wanted and (self.backend or len(free) == len(specs)):
            wanted = free[:1]
        if self.backend and not wanted:
            raise UsageError(
                f"--backend {shown(self.backend)}: every seat is taken; name one I=model"
            )
        prefix, colon, rest = (backend or "embedded").partition(":")
        spec = f"{prefix.lower()}{colon}{rest}"
        if wanted and prefix.lower() not in catalog().names("backend"):
            known = ", ".join(catalog().names("backend"))
            name = shown(backend or prefix)
            raise UsageError(f"--backend {name}: there is none of this name; known: {known}")
        return [spec if seat in wanted else other for seat, other in enumerate(specs)]

    def service(self) -> LLMService:
        from arena.service import LLMService

        return LLMService(max_cost=self.max_cost, max_tokens=self.max_tokens, cache=self.cache)


def one_of(flag: str, value: str, words: Any) -> None:
    """Raises UsageError for a word that is none of those to choose from."""
    if value not in get_args(words):
        raise UsageError(f"{flag} {value!r}: choose {', '.join(get_args(words))}")


def has_models(specs: list[str]) -> bool:
    from arena.registry import catalog

    return any(spec.partition(":")[0] in catalog().names("backend") for spec in specs)
