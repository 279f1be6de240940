"""The choice of whole groups whose rows fill a batch exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """A group in the queue, without its rows."""

    number: int
    """Position in the order of arrival."""
    env_id: int | None
    size: int
    """Rows."""


def select_batch(
    queue: Sequence[WaitingGroup], batch_size: int, minimum: Mapping[int | None, int]
) -> list[WaitingGroup] | None:
    """Return the groups of the next batch in the order of arrival, or None if none is possible.

    The oldest group is included if any choice with it fills the batch. If every size divides the
    batch size, `batch_size / size` groups of one size are always a choice: no group waits for ever
    while its environment pushes.

    Args:
        queue: The waiting groups in the order of arrival.
        batch_size: Rows of the batch, which the groups must fill exactly.
        minimum: Rows that an environment has in each batch at least. The batch waits for them.
    """
    if sum(group.size for group in queue) < batch_size:
        return None
    fixed: list[WaitingGroup] = []
    for env_id, rows in minimum.items():
        own = _first_rows([group for group in queue if group.env_id == env_id], rows)
        if own is None:
            return None
        fixed += own
    if sum(group.size for group in fixed) > batch_size:
        fixed = []  # Minimum shares that exclude each other must not block every batch.
    taken = {group.number for group in fixed}
    # First with the oldest group, so that it is not passed over for ever; then without it.
    rest = [group for group in queue if group.number not in taken]
    for start, others in ([*fixed, *rest[:1]], rest[1:]), (fixed, rest):
        chosen = _fill(start, others, batch_size)
        if chosen is not None:
            return sorted(chosen, key=lambda group: group.number)
    return None


def _first_rows(groups: Sequence[WaitingGroup], rows: int) -> list[WaitingGroup] | None:
    """Return the first groups that have so many rows together; None if all have fewer."""
    chosen: list[WaitingGroup] = []
    for group in groups:
        if sum(each.size for each in chosen) >= rows:
            break
        chosen.append(group)
    return chosen if sum(each.size for each in chosen) >= rows else None


def _fill(
    start: Sequence[WaitingGroup], others: Sequence[WaitingGroup], batch_size: int
) -> list[WaitingGroup] | None:
    """Add groups to `start` until their rows sum to the batch size, older ones preferred."""
    first = sum(group.size for group in start)
    # The usual case, equal sizes: the oldest groups fill the batch without a search.
    chosen, rows = list(start), first
    for group in others:
        if rows + group.size <= batch_size:
            chosen.append(group)
            rows += group.size
    if rows == batch_size:
        return chosen
    # Subset sum: for each number of rows that some choice has, the last group of the first such
    # choice and the number of rows without it. At most batch_size entries.
    reached: dict[int, tuple[int, WaitingGroup]] = {}
    for group in others:
        for rows in [first, *reached]:
            total = rows + group.size
            if total <= batch_size and total not in reached and total != first:
                reached[total] = rows, group
        if batch_size in reached:
            break
    chosen, rows = list(start), batch_size
    while rows != first:
        if rows not in reached:
            return None
        rows, group = reached[rows]
        chosen.append(group)
    return chosen
