"""Replays as data for fine-tuning and offline RL: `arena replay export PATH…`.

seat_replies.py   requests and replies of each model in a replay, with its reward
exporter.py       from replays to one file, in any format
chat.py           `chat`: conversations, for supervised fine-tuning
parquet.py        `parquet`: a row for each reply, with tokens and rewards, for offline RL
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.core.errors import UsageError

if TYPE_CHECKING:
    from trainers.export.exporter import Exporter


def exporter_class(name: str) -> type[Exporter]:
    """Return the exporter of a format. Raises UsageError for an unknown one."""
    match name:
        case "chat":
            from trainers.export.chat import ChatExport

            return ChatExport
        case "parquet":
            from trainers.export.parquet import ParquetExport  # Imports pyarrow.

            return ParquetExport
    raise UsageError(f"there is no export '{name}'; choose chat or parquet")
