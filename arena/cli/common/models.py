"""Flags about models: which one plays, how it is asked, and its budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, one_of
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from arena.agents.chat import AnswerForm, ChatOptions
    from arena.core.game import Game
    from arena.llm.backend import Price, Sampling
    from arena.llm.service import LLMService

ModelFlag = partial(Flag, rich_help_panel="Models")

REPLY_TOKENS = 1024
"""Longest reply without thinking: the answer and a page of reasons."""

BackendFlag = Annotated[
    str | None,
    ModelFlag(
        help="BACKEND or BACKEND:MODEL: takes the first seat without --seat, and every seat "
        "I=model. Environment: LLM_BACKEND."
    ),
]
MaxConcurrentFlag = Annotated[int, Flag(min=1, max=10_000, help="Games played at once.")]
DryRunFlag = Annotated[
    bool,
    ModelFlag(
        "--dry-run",
        help="Estimate calls, tokens and cost, from a few games of bots; nothing is asked or "
        "written.",
    ),
]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Options of the requests to models, and their budget."""

    chat: Annotated[
        str | None,
        ModelFlag(
            help="append: the chat grows by the news; fresh: it is rebuilt at each decision. "
            "Default: fresh if all models are hosted."
        ),
    ] = None
    prompt: Annotated[
        str, ModelFlag(help="System message: rules, reason, brief, of a plugin, or a file.txt.")
    ] = "rules"
    system: Annotated[
        str | None,
        ModelFlag(
            help="System message in words; {rules}, {answer}, {details} stand for usual parts."
        ),
    ] = None
    answers: Annotated[
        str,
        ModelFlag(
            help="text; json: a JSON object, by schema where the provider can; tools: a function "
            "for each kind of action."
        ),
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
    max_fallbacks: Annotated[
        int,
        ModelFlag(
            min=0,
            help="Stop the run after so many fallback moves of a model in a row, or if they are "
            "most of its first decisions (four times as many). 0: never.",
        ),
    ] = 10
    probe: Annotated[
        bool,
        ModelFlag("--probe/--no-probe", help="Check model and key once before many games."),
    ] = True
    examples: Annotated[
        int, ModelFlag(min=0, max=20, help="Examples of good decisions in the prompt.")
    ] = 0
    combined: Annotated[
        bool,
        ModelFlag(
            "--combined", help="Let one reply decide a whole turn, in games with such a move."
        ),
    ] = False
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
        int | None,
        ModelFlag(
            min=1,
            max=10**6,
            help=f"Longest reply, in tokens, thinking included. Default: {REPLY_TOKENS}, and room "
            "for thinking with models that think.",
        ),
    ] = None
    reasoning_effort: Annotated[
        str | None,
        ModelFlag(
            help="Thinking before each reply: none, minimal, low, medium or high. Default: the "
            "provider's."
        ),
    ] = None
    thinking_tokens: Annotated[
        int | None,
        ModelFlag(
            min=1, max=10**6, help="Budget of that thinking; an effort where there are no budgets."
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        ModelFlag(
            min=0,
            help="US dollars: buys whole games, exceeded by one reply at most; --dry-run estimates "
            "the cost.",
        ),
    ] = None
    token_limit: Annotated[
        int | None, ModelFlag(min=1, help="Tokens of the run, prompts and replies together.")
    ] = None
    price_in: Annotated[
        float | None,
        ModelFlag(
            min=0,
            help="US dollars per million tokens of prompts, for models whose provider names no "
            "price.",
        ),
    ] = None
    price_out: Annotated[float | None, ModelFlag(min=0, help="The same for tokens of replies.")] = (
        None
    )
    cache: Annotated[
        Path | None, ModelFlag(help="SQLite file: an equal request is answered from it.")
    ] = None

    def options(
        self, game: Game | None = None, specs: Iterable[str] = (), max_turns: int | None = None
    ) -> ChatOptions:
        """Return the chat options for these players of a game.

        The game is needed for a system message other than the usual one. Raises UsageError for an
        unknown word or flags that contradict each other.
        """
        from arena.agents.chat import THINKING_ROOM, AnswerForm, ChatMode, ChatOptions, Fallback

        chat = self.chat or default_chat(specs)
        one_of("--chat", chat, ChatMode)
        one_of("--answers", self.answers, AnswerForm)
        one_of("--fallback", self.fallback, Fallback)
        has_own_limit = self.max_tokens is not None
        return ChatOptions(
            chat,  # type: ignore[arg-type]
            self.answers,  # type: ignore[arg-type]
            self.guided,
            self.max_attempts,
            self.fallback,  # type: ignore[arg-type]
            self.beliefs,
            self.logprobs,
            self._sampling(),
            self._system(game, max_turns),
            # A limit that the user chooses includes the thinking.
            0 if has_own_limit else self.thinking_tokens or THINKING_ROOM,
            self.combined,
            self.examples,
        )

    def _sampling(self) -> Sampling:
        from arena.llm.backend import ReasoningEffort, Sampling

        limit, thinking = self.max_tokens, self.thinking_tokens
        if self.reasoning_effort is not None:
            one_of("--reasoning-effort", self.reasoning_effort, ReasoningEffort)
        if limit is not None and thinking is not None and thinking >= limit:
            raise UsageError(
                f"--thinking-tokens {thinking} leaves no room for an answer in --max-tokens {limit}"
            )
        return Sampling(
            self.temperature,
            self.top_p,
            limit or REPLY_TOKENS,
            reasoning_effort=self.reasoning_effort or "",  # type: ignore[arg-type]
            thinking_tokens=thinking,
        )

    def _system(self, game: Game | None, max_turns: int | None) -> str | None:
        """Return the system message of the flags; None for the usual one."""
        if self.system is not None and self.prompt != "rules":
            raise UsageError("--system and --prompt are two ways to say the same: choose one")
        if game is None or (self.system is None and self.prompt == "rules"):
            return None
        from trainers.prompts import fill_in, system_prompt

        answers: AnswerForm = self.answers  # type: ignore[assignment]
        limit = game.turn_limit(max_turns)
        if self.system is None:
            return system_prompt(self.prompt, game, answers, limit)
        return fill_in(self.system, game, answers, limit)

    def service(self, dry_run: bool = False) -> LLMService:
        """Return the service of these flags; for a dry run one without keys and files."""
        from arena.llm.service import LLMService
        from arena.llm.settings import KeylessSettings

        return LLMService(
            KeylessSettings.load() if dry_run else None,
            max_cost=self.max_cost,
            token_limit=self.token_limit,
            price=self._price(),
            cache=None if dry_run else self.cache,
            max_fallbacks=self.max_fallbacks,
        )

    def _price(self) -> Price | None:
        """Return the price of the flags per token. Raises UsageError for half of one."""
        from arena.llm.backend import Price

        if self.price_in is None and self.price_out is None:
            return None
        if self.price_in is None or self.price_out is None:
            raise UsageError("--price-in and --price-out belong together: give both")
        return Price(self.price_in / 1e6, self.price_out / 1e6)


async def probe_models(llm: LLMService, specs: Iterable[str]) -> None:
    """Check each model among the SPECs with one request. Raises ArenaError for the first fault."""
    for spec in dict.fromkeys(specs):
        if has_models([spec]):
            await llm.probe(spec)


def default_chat(specs: Iterable[str]) -> str:
    """Return the chat mode that costs least in the worst case: "fresh" if all models are hosted.

    A growing chat costs up to six times as many prompt tokens. Only the providers that bill a
    cached prompt at a tenth make up for it, and only if replies are short. Local servers keep the
    chat in memory, and models that were trained here know only a growing chat.
    """
    from arena.core.spec import Spec
    from backends import BACKENDS

    hosted = {n for n, (target, _) in BACKENDS.items() if target.startswith("litellm:")}
    prefixes = {Spec.parse(spec).prefix for spec in specs if has_models([spec])}
    return "fresh" if prefixes and prefixes <= hosted - {"ollama"} else "append"


def has_models(specs: Iterable[str]) -> bool:
    """Return whether a SPEC among these names a model."""
    from arena.core.spec import Spec
    from arena.plugins.loader import catalog

    return any(Spec.parse(spec).prefix in catalog().names("backend") for spec in specs)
