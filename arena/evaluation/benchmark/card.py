"""The model card of a submission: who played what, how, with which results; JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from arena.core.outcome import ReturnScale
from arena.core.text import pluralize
from arena.core.views.number_text import UNKNOWN, decimal, percentage
from arena.evaluation.benchmark.suite import Digest, FrozenModel, Identifier, Line
from arena.evaluation.output.formatting import amount, percent
from arena.evaluation.output.grid import escape_markdown
from arena.evaluation.report_parts import Interval

CARD_FILE, CARD_TEXT = "card.json", "README.md"


class TaskResult(FrozenModel):
    """The result of one task."""

    task: Identifier
    skill: Line
    game: Line
    games: int = Field(ge=0)
    """Of the player, and of the baseline on the same deals."""
    deals: int = Field(ge=0)
    scale: ReturnScale
    result: Interval
    """Mean return of the player."""
    difference: Interval
    """From the baseline on the same deals; empty for the baseline itself."""
    any_time: bool
    """Whether the run stopped by its results, so that the difference is a confidence sequence."""
    games_needed: int | None
    """Pairs of games that show this difference with 80 % power; None if no number does."""
    ahead: Interval
    """Share of the deals on which the player is ahead of the baseline; equal returns count half."""


class CardUsage(FrozenModel):
    """Tokens, cost and replies of the player's models, over all of its games."""

    games: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cost: float | None = Field(None, ge=0)
    """US dollars; None if no price is known."""
    replies: int = Field(ge=0)
    legal: int = Field(ge=0)
    fallbacks: int = Field(ge=0)
    """Moves that were played for the player."""
    fallback_games: int = Field(ge=0)
    """Games in which a move of any player was a fallback."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class SubmissionCard(FrozenModel):
    """The card of one submission."""

    format: Literal[1] = 1
    suite: Identifier
    suite_version: int = Field(ge=1)
    suite_sha256: Digest
    name: Line
    """Name in tables; the SPEC unless the submitter chose another."""
    player: Line
    """SPEC without user and password of a URL."""
    text_level: Line
    chat: dict[str, JsonValue] | None
    """How models were asked; None if only bots played."""
    arena: Line
    created: datetime
    tasks: tuple[TaskResult, ...]
    usage: CardUsage

    @property
    def uses_models(self) -> bool:
        return self.chat is not None


def card_markdown(card: SubmissionCard) -> str:
    """Return the card as Markdown."""
    return "\n".join([*_head(card), *_results(card), *_usage(card), *_check(card), ""])


def _head(card: SubmissionCard) -> Iterator[str]:
    yield f"# {escape_markdown(card.name)} on {card.suite} {card.suite_version}\n"
    facts = {
        "Player": card.player,
        "Text level": card.text_level if card.uses_models else "none, only bots played",
        "Suite": f"{card.suite} {card.suite_version}, SHA-256 {card.suite_sha256}",
        "Arena": card.arena,
        "Date": card.created.date().isoformat(),
    }
    yield from (f"- {name}: {escape_markdown(value)}" for name, value in facts.items())


def _results(card: SubmissionCard) -> Iterator[str]:
    yield "\n## Results\n"
    yield "Brackets are 95 % intervals. The baseline played the same deals in the same seats.\n"
    yield "| task | skill | deals | result | difference to the baseline | ahead of the baseline |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for task in card.tasks:
        cells = (
            task.task,
            escape_markdown(task.skill),
            str(task.deals),
            amount(task.result, task.scale),
            amount(task.difference, task.scale, signed=True),
            percent(task.ahead),
        )
        yield f"| {' | '.join(cells)} |"


def _usage(card: SubmissionCard) -> Iterator[str]:
    usage = card.usage
    yield "\n## Replies and cost\n"
    if not card.uses_models:
        yield f"A bot played {pluralize(usage.games, 'game')}: no model, no cost."
        return
    games = max(1, usage.games)
    cost = UNKNOWN if usage.cost is None else f"${usage.cost / games:.4f}"
    yield f"- Games: {usage.games}, {usage.fallback_games} of them with a fallback move"
    yield f"- Legal replies: {percentage(usage.legal / max(1, usage.replies))} of {usage.replies}"
    yield f"- Tokens per game: {decimal(usage.prompt_tokens / games, 0)} in prompts, "
    yield f"  {decimal(usage.completion_tokens / games, 0)} in replies"
    yield f"- Cost per game: {cost}"


def _check(card: SubmissionCard) -> Iterator[str]:
    yield "\n## Check\n"
    yield (
        f"`arena bench verify FOLDER` plays every game of this folder again and compares "
        f"`{CARD_FILE}` with the replays; this text is generated from that file."
    )
