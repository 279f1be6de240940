"""Flags about models: which one plays, how it is asked, and its budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, one_of

if TYPE_CHECKING:
    from arena.agents.prompt import ChatOptions
    from arena.llm.service import LLMService

ModelFlag = partial(Flag, rich_help_panel="Models")

BackendFlag = Annotated[
    str | None,
    ModelFlag(
        help="BACKEND or BACKEND:MODEL: takes the first seat without --seat, and every seat "
        "I=model. Environment: LLM_BACKEND."
    ),
]
MaxConcurrentFlag = Annotated[int, Flag(min=1, max=10_000, help="Games played at once.")]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Options of the requests to models, and their budget."""

    chat: Annotated[
        str,
        ModelFlag(
            help="append: the chat grows by the news; fresh: it is rebuilt at each decision."
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
        bool, ModelFlag("--logprobs", help="Keep token ids and log-probabilities in the replay.")
    ] = False
    temperature: Annotated[float, ModelFlag(min=0, max=2, help="Sampling temperature.")] = 1.0
    top_p: Annotated[float, ModelFlag(min=0.01, max=1, help="Nucleus sampling.")] = 1.0
    max_tokens: Annotated[
        int, ModelFlag(min=1, max=10**6, help="Longest reply, in tokens, thinking included.")
    ] = 1024
    max_cost: Annotated[
        float | None, ModelFlag(min=0, help="US dollars: no call is made that would exceed it.")
    ] = None
    token_limit: Annotated[
        int | None, ModelFlag(min=1, help="Tokens of the run, prompts and replies together.")
    ] = None
    cache: Annotated[
        Path | None, ModelFlag(help="SQLite file: an equal request is answered from it.")
    ] = None

    def options(self) -> ChatOptions:
        """Return the chat options. Raises UsageError for an unknown word."""
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
            Sampling(self.temperature, self.top_p, self.max_tokens),
        )

    def service(self) -> LLMService:
        from arena.llm.service import LLMService

        return LLMService(max_cost=self.max_cost, token_limit=self.token_limit, cache=self.cache)


def has_models(specs: Iterable[str]) -> bool:
    """Return whether a SPEC among these names a model."""
    from arena.core.spec import Spec
    from arena.plugins.loader import catalog

    return any(Spec.parse(spec).prefix in catalog().names("backend") for spec in specs)
