"""Cost of a game by model and form of the chat, on a server that models the providers' caches.

    python tests/benchmarks/bench_costs.py      prints the table of docs/guides/costs.md

Prices are those of the bundled list. The model suggests other cards in each turn and never accuses;
its replies have about 110 tokens. Games run one after the other, so that caches hold all they can.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cache_server import CacheServer
from cluedo_server import legal_answer

from arena.agents.chat import ChatMode, ChatOptions
from arena.episodes.match import Match, play
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import make_game

GAMES = 2
THOUGHT = "I compare what each player has shown with what I hold. " * 8
SHORTEST = {"claude-haiku-4-5": 4096, "claude-opus-4-5": 4096}
MODELS = (
    *("openai:gpt-4o-mini", "openai:gpt-5.5"),
    *("anthropic:claude-sonnet-4-5", "anthropic:claude-haiku-4-5"),
)


def says(body: Any) -> str:
    message = body["messages"][-1]["content"]
    text = message if isinstance(message, str) else "".join(part["text"] for part in message)
    return f"{THOUGHT}\nAction: {legal_answer({'messages': [{'content': text}]})}"


async def cost_of(spec: str, mode: ChatMode, level: Any, batches: bool) -> tuple[float, float]:
    """Return the US dollars of a game, and the cached share of its prompts."""
    with CacheServer(says, SHORTEST.get(spec.partition(":")[2], 1024)) as server:
        os.environ.update(OPENAI_BASE_URL=server.openai_url, ANTHROPIC_API_BASE=server.url)
        settings = Settings.load(service={"batch_seconds": 0.05})
        notify = lambda _: None  # noqa: E731
        with TemporaryDirectory() as folder:
            async with LLMService(settings, batches=batches, notify=notify) as llm:
                llm.backend(spec)
                if batches:
                    llm.keep_batches(Path(folder))
                game = make_game("cluedo", players=3)
                specs = [spec, "bot:novice", "bot:novice"]
                match = Match(game, specs, 0, level, ChatOptions(mode))
                played = [play(match.with_seed(seed), llm=llm) for seed in range(GAMES)]
                if batches:
                    await asyncio.gather(*played)
                else:
                    for each in played:
                        await each
                total = llm.ledger.total()
                assert not total.unknown_cost and not total.failed
                return total.cost / GAMES, server.cached / server.prompt


async def main() -> None:
    os.environ.update(OPENAI_API_KEY="sk-none", ANTHROPIC_API_KEY="sk-none")
    level = "deductions" if "--deductions" in sys.argv else "notes"
    print("| model | append | cached | fresh | cached | fresh, --batch |")
    print("| --- | --- | --- | --- | --- | --- |")
    for spec in MODELS:
        cells = []
        for mode in get_args(ChatMode):
            cost, share = await cost_of(spec, mode, level, batches=False)
            cells += [f"${cost:.4f}", f"{share:.0%}"]
        cost, _ = await cost_of(spec, "fresh", level, batches=True)
        print(f"| `{spec}` | {' | '.join(cells)} | ${cost:.4f} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
