"""Constrained decoding: the tokens that may come next in an answer (the token mask)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from arena.core.errors import UsageError
from arena.plugins.extras import require
from backends.embedded.token_sampling import SamplingParams, TokenIds

MAX_CACHED_TRIES = 1024


class TokenConstraint(Protocol):
    """Constraint on one answer; its state advances with each token."""

    def allowed(self) -> TokenIds:
        """Return the ids that may come next, ascending; never empty before the end token."""

    def advance(self, token: int) -> None:
        """Continue after this token."""


@dataclass(slots=True)
class TrieNode:
    """Node of a trie of token sequences."""

    children: dict[int, TrieNode] = field(default_factory=dict)
    allowed: TokenIds | None = None  # The keys of `children`, ascending; computed at first use.


class ChoiceConstraint:
    """Constraint to one of several texts.

    Each text is tokenized in one way only, the tokenizer's own; the end token follows it.
    """

    def __init__(self, root: TrieNode) -> None:
        self._node = root

    def allowed(self) -> TokenIds:
        if self._node.allowed is None:
            self._node.allowed = np.array(sorted(self._node.children), dtype=np.int64)
        return self._node.allowed

    def advance(self, token: int) -> None:
        self._node = self._node.children[token]


def build_trie(sequences: Iterable[Sequence[int]]) -> TrieNode:
    """Return the root of a trie of token sequences."""
    root = TrieNode()
    for sequence in sequences:
        node = root
        for token in sequence:
            node = node.children.setdefault(token, TrieNode())
    return root


class GrammarConstraint:
    """Constraint to a regular expression or a JSON schema, computed by llguidance."""

    def __init__(self, matcher: Any, end_id: int) -> None:
        self._matcher = matcher
        self._end = np.array([end_id], dtype=np.int64)

    def allowed(self) -> TokenIds:
        # The bit mask has one bit per token, the lowest bit of each byte first.
        mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        ids = np.flatnonzero(np.unpackbits(mask, bitorder="little"))
        return ids if len(ids) else self._end  # A grammar without a continuation ends the answer.

    def advance(self, token: int) -> None:
        self._matcher.consume_token(token)


class ConstraintFactory:
    """Creates constraints for one tokenizer and caches the tries of choices."""

    def __init__(self, tokenizer: Any, vocabulary: int, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._end_id = end_ids[0]
        self._tries: dict[tuple[str, ...], TrieNode] = {}
        self._grammar_tokenizer: Any = None

    def create(self, params: SamplingParams) -> TokenConstraint | None:
        """Return the constraint that the parameters ask for, if any.

        Raises UsageError for an invalid grammar, MissingDependency without llguidance.
        """
        if params.guided_choice:  # Without a grammar engine.
            return ChoiceConstraint(self._trie(params.guided_choice))
        if params.guided_regex:
            return self._grammar(lambda llg: llg.grammar_from_regex(params.guided_regex))
        if params.guided_json is not None:
            return self._grammar(lambda llg: llg.grammar_from_json_schema(params.guided_json))
        return None

    def _trie(self, choices: tuple[str, ...]) -> TrieNode:
        trie = self._tries.get(choices)
        if trie is None:
            encoded = self._tokenizer(list(choices), add_special_tokens=False)["input_ids"]
            if not all(encoded):
                raise UsageError("guided_choice: a choice is empty")
            # The end token closes a choice, so that a choice may be a prefix of another one.
            trie = build_trie([*ids, self._end_id] for ids in encoded)
            if len(self._tries) >= MAX_CACHED_TRIES:
                del self._tries[next(iter(self._tries))]  # The oldest one.
            self._tries[choices] = trie
        return trie

    def _grammar(self, make_grammar: Callable[[Any], str]) -> TokenConstraint:
        require("an answer that follows guided_regex or guided_json", ("llguidance",), "embedded")
        import llguidance
        import llguidance.hf

        if self._grammar_tokenizer is None:  # Built at first use.
            self._grammar_tokenizer = llguidance.hf.from_tokenizer(
                self._tokenizer, n_vocab=self._vocabulary, eos_token=self._end_id
            )
        try:
            matcher = llguidance.LLMatcher(
                self._grammar_tokenizer, make_grammar(llguidance.LLMatcher), log_level=0
            )
        except ValueError as error:
            raise UsageError(f"the grammar cannot be used: {error}") from None
        if matcher.is_error():
            raise UsageError(f"the grammar cannot be used: {matcher.get_error()}")
        return GrammarConstraint(matcher, self._end_id)
