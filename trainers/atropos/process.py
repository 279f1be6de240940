"""`arena atropos process`: groups as JSON lines and as a page, without a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TextIO

from arena.core.errors import UsageError
from arena.episodes.files import write_whole
from trainers.atropos.environment import EnvironmentCounts
from trainers.atropos.group_player import GroupPlayer
from trainers.atropos.wire import ScoredData

SHOWN_GROUPS = 50
"""Groups on the page; the file of lines has all."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
pre {{ white-space: pre-wrap; background: #8881; padding: .5rem; margin: .25rem 0 }}
</style></head><body><h1>{title}</h1><p>{summary}</p>
{groups}
</body></html>
"""


async def process(
    player: GroupPlayer,
    groups: int,
    out: Path,
    max_tokens: int,
    progress: Callable[[int], None] = lambda done: None,
) -> EnvironmentCounts:
    """Play until there are so many groups; write `out` and beside it a page `out`.html.

    Items are played one after the other, the games of an item together. Each line is a group as it
    would be pushed.

    Raises:
        UsageError: `out` exists or cannot be written, or items give nothing but dropped groups.
    """
    counts, shown = EnvironmentCounts(), list[ScoredData]()
    with _new_file(out) as lines:
        while counts.pushed < groups:
            played = await player.play(counts.items, None, max_tokens)
            counts.items += 1
            counts.add(played)
            counts.pushed += len(played.groups)
            # Otherwise rows that are always too long would be played for ever.
            if not counts.pushed and counts.items >= 20:
                raise UsageError(f"20 items gave no group: {counts}")
            lines.writelines(f"{group.to_json()}\n" for group in played.groups)
            # After each item, so that a killed run leaves its finished groups.
            lines.flush()
            shown += played.groups[: SHOWN_GROUPS - len(shown)]
            progress(min(counts.pushed, groups))
    write_whole(out.with_suffix(".html"), page(f"{player.config.game}: groups", counts, shown))
    return counts


@contextmanager
def _new_file(out: Path) -> Iterator[TextIO]:
    """Open a new file; an error before the first group leaves none. Raises UsageError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Never overwritten: its games cost time or money.
        with out.open("x", encoding="utf-8") as lines:
            try:
                yield lines
            finally:
                if not lines.tell():
                    out.unlink()
    except FileExistsError:
        raise UsageError(f"--out {out}: the file exists; name another one") from None
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None


def page(title: str, counts: EnvironmentCounts, groups: list[ScoredData]) -> str:
    """Return the page with the chats and the scores of these groups."""
    sections = "\n".join(_section(number, group) for number, group in enumerate(groups))
    return PAGE.format(title=escape(title), summary=escape(str(counts)), groups=sections)


def _section(number: int, group: ScoredData) -> str:
    facts = json.dumps((group.group_overrides or {}).get("arena"))
    rows = []
    for row, score in enumerate(group.scores):
        trained = sum(mask >= 0 for mask in group.masks[row])
        chat = "".join(
            f"<pre><b>{escape(str(message['role']))}</b>\n{escape(str(message['content']))}</pre>"
            for message in (group.messages or [[]] * group.size)[row]
        )
        rows.append(
            f"<details><summary>Score {score:.4g}: {len(group.tokens[row])} tokens, {trained} "
            f"trained</summary>{chat}</details>"
        )
    return f"<h2>Group {number}</h2><p>{escape(facts)}</p>{''.join(rows)}"
