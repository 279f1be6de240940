"""Message graph of a seat, as verifiers stores it: each message once, with the tokens it adds.

A request continues a branch if it repeats the messages of the last request and the reply to it, in
words and in tokens. Otherwise it starts another branch, which stores all its messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from arena.llm.backend import Message
from trainers.export.seat_replies import ModelReply
from trainers.rollouts.attempts import sampling_logprob

Fields = dict[str, JsonValue]
"""A record of verifiers, by the names of its fields."""


def message_graph(
    replies: Sequence[ModelReply], timestamp: float
) -> tuple[list[Fields], dict[int, int]]:
    """Return the nodes of a seat, and the place of each answered reply by its `id()`."""
    nodes: list[Fields] = []
    places: dict[int, int] = {}
    before: ModelReply | None = None
    for reply in replies:
        if not reply.answered:
            continue
        known, tokens = 0, 0
        if before is not None and _continues(before, reply):
            known = len(before.request) + 1
            tokens = len(before.attempt.prompt_token_ids) + len(before.attempt.tokens)
        parent = len(nodes) - 1 if known else None
        for message in reply.request[known:]:
            shown: Fields = {"role": message.role, "content": message.content}
            nodes.append(_node(parent, shown, timestamp))
            parent = len(nodes) - 1
        nodes.append(_reply_node(parent, reply, tokens, timestamp))
        places[id(reply)] = len(nodes) - 1
        before = reply
    return nodes, places


def _continues(before: ModelReply, reply: ModelReply) -> bool:
    """Return whether a request repeats the previous one with its reply, in words and in tokens."""
    repeated = (*before.request, Message("assistant", before.text))
    if reply.request[: len(repeated)] != repeated:
        return False
    sampled = [number for number, _, _ in before.attempt.tokens]
    read = [*before.attempt.prompt_token_ids, *sampled]
    ids = reply.attempt.prompt_token_ids
    # Without any ids there is nothing to contradict the words.
    return list(ids[: len(read)]) == read and bool(ids) == bool(read)


def _node(parent: int | None, message: Fields, timestamp: float) -> Fields:
    return {
        "parent": parent,
        "message": message,
        "sampled": False,
        "timestamp": timestamp,
        "token_ids": [],
        "mask": [],
        "logprobs": [],
    }


def _reply_node(parent: int | None, reply: ModelReply, known: int, timestamp: float) -> Fields:
    """Return the node of a reply; the first `known` tokens of its request belong to the parents."""
    attempt = reply.attempt
    message: Fields = {"role": "assistant", "content": reply.text}
    if attempt.reasoning:
        message["reasoning_content"] = attempt.reasoning
    sampled: list[int] = [number for number, _, _ in attempt.tokens if number is not None]
    if len(sampled) < len(attempt.tokens) or not attempt.prompt_token_ids:
        sampled = []  # A token without an id, or an unknown prompt: the node has no tokens.
    # The tokens of new messages and of the template are kept here, before the reply's own: no
    # record says which of them belong to which message. The mask keeps them out of the loss.
    read = [*attempt.prompt_token_ids[known:]] if sampled else []
    drawn = [sampling_logprob(logprob, value) for _, logprob, value in attempt.tokens]
    return {
        **_node(parent, message, timestamp),
        "sampled": True,
        "token_ids": [*read, *sampled],
        "mask": [*[False] * len(read), *[True] * len(sampled)],
        "logprobs": [*drawn] if sampled else [],
    }
