"""The flags about models: which one plays, how it is spoken to, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, one_of
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from arena.agents.prompt import ChatOptions
    from arena.llm.service import LLMService

ModelFlag = partial(Flag, rich_help_panel="Models")

BackendFlag = Annotated[
    str | None,
    ModelFlag(
        help="BACKEND or BACKEND:MODEL: takes the first seat that no --seat names, and every seat "
        "that is named 'model'. Environment: LLM_BACKEND.",
    ),
]
AtOnceFlag = Annotated[int, Flag(min=1, max=10_000, help="Games played at once.")]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """How models are asked, and what that may cost."""

    chat: Annotated[
        str,
        ModelFlag(
            help="append: the chat grows by what is new; fresh: it is told anew at each decision."
        ),
    ] = "append"
    answers: Annotated[
        str, ModelFlag(help="text, or json: a JSON object, by schema where the provider can.")
    ] = "text"
    guided: Annotated[
        bool,
        ModelFlag(
            "--guided/--free", help="Let the backend allow legal actions only, where it can."
        ),
    ] = False
    max_attempts: Annotated[
        int, ModelFlag(min=1, max=20, help="Replies per decision until the fallback.")
    ] = 3
    fallback: Annotated[
        str,
        ModelFlag(
            help="For a decision without a legal reply: random (a harmless legal move), forfeit "
            "(the same for the rest of the game) or stop (the run ends)."
        ),
    ] = "random"
    beliefs: Annotated[
        bool,
        ModelFlag(
            "--beliefs",
            help="Also ask what the model believes, and score it (costs a call per decision).",
        ),
    ] = False
    logprobs: Annotated[
        bool,
        ModelFlag("--logprobs", help="Keep token ids and log-probabilities in the replay."),
    ] = False
    temperature: Annotated[float, ModelFlag(min=0, max=2, help="Sampling temperature.")] = 1.0
    top_p: Annotated[float, ModelFlag(min=0.01, max=1, help="Nucleus sampling.")] = 1.0
    answer_tokens: Annotated[
        int, ModelFlag(min=1, max=10**6, help="Longest reply, in tokens, thinking included.")
    ] = 1024
    max_cost: Annotated[
        float | None,
        ModelFlag(min=0, help="US dollars: no call is made that would exceed it."),
    ] = None
    max_tokens: Annotated[int | None, ModelFlag(min=1, help="The same, in tokens of the run.")] = (
        None
    )
    cache: Annotated[
        Path | None, ModelFlag(help="SQLite file: an equal request is answered from it.")
    ] = None

    def options(self) -> ChatOptions:
        """Raises UsageError for a word that is none of those to choose from."""
        from arena.agents.prompt import AnswerForm, ChatMode, ChatOptions, Fallback
        from arena.llm.backend import Sampling

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

    def service(self) -> LLMService:
        from arena.llm.service import LLMService

        return LLMService(max_cost=self.max_cost, max_tokens=self.max_tokens, cache=self.cache)


def seat_model(backend: str | None, specs: list[str], free: list[int]) -> list[str]:
    """Put the model on its seats; `free` are those that no --seat names."""
    from arena.core.spec import shown
    from arena.llm.settings import Settings
    from arena.plugins.loader import catalog

    asked = backend or Settings.load().llm_backend
    wanted = [seat for seat, spec in enumerate(specs) if spec == "model"]
    # What the environment says takes no seat from a table that was set by hand.
    if asked and not wanted and (backend or len(free) == len(specs)):
        wanted = free[:1]
    if backend and not wanted:
        raise UsageError(f"--backend {shown(backend)}: every seat is taken; name one I=model")
    prefix, colon, rest = (asked or "embedded").partition(":")
    spec = f"{prefix.lower()}{colon}{rest}"
    if wanted and prefix.lower() not in catalog().names("backend"):
        known = ", ".join(catalog().names("backend"))
        name = shown(asked or prefix)
        raise UsageError(f"--backend {name}: there is none of this name; known: {known}")
    return [spec if seat in wanted else other for seat, other in enumerate(specs)]


def has_models(specs: list[str]) -> bool:
    from arena.plugins.loader import catalog

    return any(spec.partition(":")[0] in catalog().names("backend") for spec in specs)
