"""Options that several commands share: the game, models, their budget, and where games run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from arena.agents.chat import THINKING_ROOM, AnswerForm, ChatMode, ChatOptions, system_prompt
from arena.agents.seating import Level, default_bot, level_bot
from arena.cli.terminal import echo
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.spec import Spec, draw_seed, redacted
from arena.core.text import did_you_mean, read_value
from arena.episodes.job import Executor, ExecutorKind, available_cores, make_executor
from arena.llm.backend import BackendTraits, ReasoningEffort, Sampling
from arena.llm.config import Config, argument, setting
from arena.llm.settings import MODELS, KeylessSettings, RunLimits, Settings
from arena.plugins.catalog import catalog, make_game, require

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.llm.service import LLMService

REPLY_TOKENS = 1024
"""Longest reply without thinking: the answer and a page of reasons."""


class OutputOptions(Config):
    """How a command prints its result."""

    as_json: bool = setting(False, flag="--json")
    """Print the result as JSON, in the last line."""


class SeedOptions(Config):
    """The seed of a command's games."""

    seed: int | None = setting(None, ge=0, le=2**53)
    """Random seed. Default: random."""

    def first_seed(self) -> int:
        """Return the seed, or a new random one if it is not given."""
        return draw_seed() if self.seed is None else self.seed


class GameSetupOptions(Config):
    """The game, with its options."""

    game: str = argument()
    """The game; 'arena list games' lists them."""
    players: int | None = setting(None)
    """Number of seats."""
    option: list[str] = setting([], flag="--option/-o")
    """NAME=VALUE, any option of the game."""

    def game_options(self) -> dict[str, JsonValue]:
        """Return the options of the game. Raises UsageError for one that is given twice."""
        given: dict[str, JsonValue] = {}
        for text in self.option:
            name, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"--option {text!r} is not NAME=VALUE")
            given[name] = read_value(value)
        if self.players is not None:
            if "players" in given:
                raise UsageError(
                    f"--players {self.players} and --option players=… are mutually exclusive"
                )
            given["players"] = self.players
        return given

    def make_game(self) -> Game:
        """Make the game. Raises UsageError for a bad option."""
        return make_game(self.game, **self.game_options())


class TextOptions(GameSetupOptions):
    """The game, the level of help in the players' texts, and its longest duration."""

    text_level: TextLevel = setting("notes")
    """Help in the text."""
    max_turns: int | None = setting(None, ge=1)
    """Turns after which a game is cut off."""


class ModelOptions(RunLimits):
    """How models are asked, and their budget."""

    shared_table: ClassVar[str] = "models"

    chat: ChatMode | None = setting(None, MODELS)
    """append: the chat grows by what is new. fresh: it is built anew for each decision. Default:
    fresh for hosted models, unless their cached prompts are cheap."""
    prompt: str = setting("rules", MODELS)
    """System message: rules, brief, or a file.txt, in which {rules}, {answer} and
    {details} are replaced by the usual parts."""
    answers: AnswerForm = setting("text", MODELS)
    """text; json: a JSON object, by schema if the provider supports it; tools: a function for each
    kind of action."""
    guided: bool = setting(False, MODELS, flag="--guided/--free")
    """Constrain sampling to legal actions, if the backend supports it."""
    max_attempts: int = setting(3, MODELS, flag=False, ge=1, le=20)
    """Replies per decision before the fallback is played."""
    beliefs: bool = setting(False, MODELS, flag=False)
    """Ask the model for its beliefs too, and score them: one more call per decision."""
    logprobs: bool = setting(False, MODELS, flag=False)
    """Keep token ids and log-probabilities in the replay."""
    temperature: float = setting(1.0, MODELS, ge=0, le=2)
    """Sampling temperature."""
    top_p: float = setting(1.0, MODELS, flag=False, ge=0.01, le=1)
    """Nucleus sampling: share of the probability mass that is sampled from."""
    max_tokens: int | None = setting(None, MODELS, ge=1, le=10**6)
    """Longest reply in tokens, thinking included. Default: 1024, and more for models that think."""
    reasoning_effort: ReasoningEffort | None = setting(None, MODELS)
    """Thinking before each reply. Default: the provider's."""

    def chat_options(
        self,
        game: Game | None = None,
        specs: Iterable[str] = (),
        max_turns: int | None = None,
        llm: LLMService | None = None,
    ) -> ChatOptions:
        """Return the chat options for these players of a game.

        The game is needed for a system message other than the usual one, the service for the form
        of the chat. Raises UsageError for an unknown word or flags that contradict each other.
        """
        if self.guided and self.answers != "text":
            raise UsageError(
                f"--guided and --answers {self.answers} exclude each other: a guided reply is a "
                "legal action and nothing else"
            )
        return ChatOptions(
            self.chat or default_chat(specs, llm),
            self.answers,
            self.guided,
            self.max_attempts,
            self.beliefs,
            self.logprobs,
            Sampling(
                self.temperature,
                self.top_p,
                self.max_tokens or REPLY_TOKENS,
                reasoning_effort=self.reasoning_effort or "",
            ),
            self._system(game, max_turns),
            # A limit that the user chooses includes the thinking.
            0 if self.max_tokens else THINKING_ROOM,
        )

    def _system(self, game: Game | None, max_turns: int | None) -> str | None:
        """Return the system message of the flags; None for the usual one."""
        if game is None or self.prompt == "rules":
            return None
        return system_prompt(self.prompt, game, self.answers, game.turn_limit(max_turns))

    def service(self, dry_run: bool = False) -> LLMService:
        """Return the service of these flags; for a dry run one without keys."""
        from arena.llm.service import LLMService

        settings = KeylessSettings.load() if dry_run else None
        return LLMService(settings, self)


CHEAP_CACHE = 0.15
"""Share of the price of a prompt's token up to which a growing chat costs less than a fresh one: in
Cluedo with replies of 100 tokens, 45,000 cached and 8,000 other tokens against 15,000."""
SHORT_PREFIX = 2048
"""Tokens. Chats of a game are hardly longer than prefixes that a cache takes from here on."""


def default_chat(specs: Iterable[str], llm: LLMService | None) -> ChatMode:
    """Return the form of the chat that should cost least.

    Local servers keep a growing chat in memory, and models that were trained here know only such a
    chat. A hosted model is billed for all of it, so that its cache has to be cheap.
    """
    from backends import PROVIDERS

    hosted = {*PROVIDERS, "litellm"}
    models = [spec for spec in dict.fromkeys(specs) if has_models([spec])]
    if any(Spec.parse(spec).prefix not in hosted - {"ollama"} for spec in models):
        return "append"
    for spec in models:
        traits = llm.traits(spec) if llm else BackendTraits()
        price, shortest = traits.price, traits.cached_prefix
        if price is None or not price.cached or price.cached > CHEAP_CACHE * price.input:
            return "fresh"
        if shortest is None or shortest > SHORT_PREFIX:
            return "fresh"
    return "append"


def has_models(specs: Iterable[str]) -> bool:
    """Return whether a SPEC among these names a model."""
    return any(Spec.parse(spec).prefix in catalog().names("backend") for spec in specs)


def loading(specs: Sequence[str]) -> AbstractContextManager[object]:
    """Return a status line for the terminal: torch and the weights of a model take seconds."""
    models = [spec for spec in dict.fromkeys(specs) if has_models([spec])]
    if not models or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.markup import escape

    what = "torch and " if any(spec.startswith("embedded:") for spec in models) else ""
    return Console(stderr=True).status(escape(f"loading {what}{', '.join(map(redacted, models))}"))


def seat_specs(
    game: Game, seats: Sequence[str], backend: str | None, level: Level | None = None
) -> list[str]:
    """Return the SPEC of each seat from --seat and --backend.

    The others are taken by the default bot, or by that of the level.
    """
    named = named_seats(game, seats)
    bot = level_bot(game, level) if level else default_bot(game)
    free = [seat for seat in range(game.num_players) if seat not in named]
    return seat_model(backend, [named.get(seat, bot) for seat in range(game.num_players)], free)


def named_seats(game: Game, seats: Sequence[str]) -> dict[int, str]:
    """Return the SPECs of --seat by seat. Raises UsageError for a wrong or repeated seat."""
    named: dict[int, str] = {}
    for text in seats:
        number, _, spec = text.partition("=")
        if not spec or not (number.isascii() and number.isdecimal()):
            raise UsageError(f"--seat {redacted(text)!r} is not I=SPEC, for example 0=bot:oracle")
        if int(number) >= game.num_players:
            raise UsageError(
                f"--seat {redacted(text)!r}: {game.name} has seats 0 to {game.num_players - 1} here"
            )
        if int(number) in named:
            raise UsageError(f"--seat {redacted(text)!r}: seat {number} is named twice")
        named[int(number)] = spec
    return named


def seat_model(backend: str | None, specs: list[str], free: list[int]) -> list[str]:
    """Put the model on its seats; `free` are the seats without --seat."""
    asked = backend or Settings.load().llm_backend
    wanted = [seat for seat, spec in enumerate(specs) if spec == "model"]
    # The environment variable takes no seat if any seat was named by hand.
    if asked and not wanted and (backend or len(free) == len(specs)):
        wanted = free[:1]
    if backend and not wanted:
        raise UsageError(f"--backend {redacted(backend)}: all seats are taken; name one I=model")
    parsed = Spec.parse(asked or "embedded")
    spec = replace(parsed, prefix=parsed.prefix.lower())
    known = catalog().names("backend")
    if wanted and spec.prefix not in known:
        name, source = redacted(asked or spec.prefix), "--backend " if backend else "LLM_BACKEND="
        near = did_you_mean(spec.prefix, known)
        raise UsageError(f"{source}{name}: unknown backend; {near}known: {', '.join(known)}")
    return [str(spec) if seat in wanted else other for seat, other in enumerate(specs)]


class ExecutorOptions(Config):
    """Where bots play and games are scored. Results do not depend on it."""

    executor: ExecutorKind | None = setting(None)
    """Where games run: in this process, in processes, or on a Ray cluster."""
    workers: int | None = setting(None, ge=1, le=100_000)
    """Number of workers. Default: the number of cores."""
    address: str | None = setting(None, flag=False)
    """Address of the Ray cluster. Default: RAY_ADDRESS, or a new one on this machine."""

    def check_executor(self) -> None:
        """Raise UsageError for flags that do not fit together, MissingDependency without Ray."""
        if self.executor == "ray":
            require("--executor ray", ["ray"], "ray")
        elif self.address is not None:
            raise UsageError(f"address={self.address} needs --executor ray")
        if self.executor == "local" and self.workers not in (None, 1):
            raise UsageError(f"--workers {self.workers}: --executor local has one worker")

    def make_executor(self, units: int, llm: LLMService | None = None) -> Executor:
        """Return the executor for this many units of work.

        Without --executor it is `processes`, or `local` if one worker is enough.
        """
        self.check_executor()
        if self.executor == "ray":
            # The number of cores of a cluster is known only once it is connected.
            return make_executor("ray", self.workers, llm, self.address)
        workers = min(self.workers or available_cores(), max(units, 1))
        if workers > 1:
            workers = fitting(workers, "workers", PER_WORKER)
        default: ExecutorKind = "processes" if workers > 1 else "local"
        return make_executor(self.executor or default, workers, llm)


PER_WORKER = 2
"""Descriptors of a worker process: its pipe, and what tells that it ends."""
PER_GAME = 2
"""Descriptors of a game: the replay that is written, and a connection or a file that is read."""
PER_PROGRAM = 4
"""Descriptors of `agent:COMMAND`: its three streams, and one more while it starts."""
RESERVE = 192
"""Descriptors of libraries, the terminal, the files of results, and connections to providers."""


def games_that_fit(games: int, specs: Sequence[str] = ()) -> int:
    """Return how many of these games can be played at once (`fitting`)."""
    programs = sum(Spec.parse(spec).prefix == "agent" for spec in specs)
    return fitting(games, "games", PER_GAME + PER_PROGRAM * programs)


def fitting(number: int, what: str, descriptors: int) -> int:
    """Return how many games or workers fit the limit of open files, at least one.

    Raises the soft limit so that all fit. If the hard limit is too low for that, prints a line.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return number
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited, needed = resource.RLIM_INFINITY, RESERVE + descriptors * number
    if soft == unlimited or soft >= needed:
        return number
    # A soft limit without end is refused by macOS.
    wanted = needed if hard == unlimited else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted == needed:
        return number
    # Small runs need less than the reserve.
    most = max(1, (hard - min(RESERVE, hard // 2)) // descriptors)
    if most < number:
        echo(
            f"this process may open {hard} files (ulimit -Hn): {most} {what} at once instead "
            f"of {number}; raise the limit for more",
            file=sys.stderr,
        )
    return min(most, number)
