"""Guides: which tokens an answer may go on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from arena.core.errors import MissingDependency, UsageError
from backends.embedded.token_sampling import Draw, Ids

CACHED_TRIES = 1024


class Guide(Protocol):
    """The state of one answer."""

    def allowed(self) -> Ids:
        """The ids that may come next, ascending; never empty while the answer is not over."""

    def advance(self, token: int) -> None:
        """Go on behind this token."""


@dataclass(slots=True)
class _Node:
    children: dict[int, _Node] = field(default_factory=dict)
    allowed: Ids | None = None


class ChoiceGuide:
    """Walks a trie of the choices, each tokenised as the tokenizer does and then ended."""

    def __init__(self, root: _Node) -> None:
        self._node = root

    def allowed(self) -> Ids:
        if self._node.allowed is None:
            self._node.allowed = np.array(sorted(self._node.children), dtype=np.int64)
        return self._node.allowed

    def advance(self, token: int) -> None:
        self._node = self._node.children[token]


def make_trie(choices: Iterable[Sequence[int]]) -> _Node:
    """A trie of token sequences, each with its end token."""
    root = _Node()
    for choice in choices:
        node = root
        for token in choice:
            node = node.children.setdefault(token, _Node())
    return root


class GrammarGuide:
    """A regular expression or a JSON schema, by llguidance."""

    def __init__(self, matcher: Any, end: int) -> None:
        self._matcher = matcher
        self._end = np.array([end], dtype=np.int64)

    def allowed(self) -> Ids:
        mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        ids = np.flatnonzero(np.unpackbits(mask, bitorder="little"))
        return ids if len(ids) else self._end  # A grammar that leads nowhere is ended.

    def advance(self, token: int) -> None:
        self._matcher.consume_token(token)


class GuideMaker:
    """Makes the guides of a tokenizer's answers; remembers the tries of choices seen before."""

    def __init__(self, tokenizer: Any, vocabulary: int, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._end_ids = list(end_ids)
        self._tries: dict[tuple[str, ...], _Node] = {}
        self._grammar_tokenizer: Any = None

    def make(self, draw: Draw) -> Guide | None:
        """The guide that `draw` asks for. Raises UsageError for a grammar that cannot be."""
        if draw.guided_choice:
            return ChoiceGuide(self._trie(draw.guided_choice))
        if draw.guided_regex:
            return self._grammar(lambda matcher: matcher.grammar_from_regex(draw.guided_regex))
        if draw.guided_json is not None:
            return self._grammar(lambda matcher: matcher.grammar_from_json_schema(draw.guided_json))
        return None

    def _trie(self, choices: tuple[str, ...]) -> _Node:
        trie = self._tries.get(choices)
        if trie is None:
            encoded = self._tokenizer(list(choices), add_special_tokens=False)["input_ids"]
            if not all(encoded):
                raise UsageError("guided_choice: a choice is empty")
            trie = make_trie([*ids, self._end_ids[0]] for ids in encoded)
            if len(self._tries) >= CACHED_TRIES:
                del self._tries[next(iter(self._tries))]
            self._tries[choices] = trie
        return trie

    def _grammar(self, grammar: Callable[[Any], str]) -> Guide:
        try:
            import llguidance
            import llguidance.hf
        except ImportError:
            raise MissingDependency(
                "guided_regex and guided_json need llguidance: pip install 'arena-games[embedded]'"
            ) from None
        if self._grammar_tokenizer is None:
            self._grammar_tokenizer = llguidance.hf.from_tokenizer(
                self._tokenizer, n_vocab=self._vocabulary, eos_token=self._end_ids[0]
            )
        try:
            matcher = llguidance.LLMatcher(
                self._grammar_tokenizer, grammar(llguidance.LLMatcher), log_level=0
            )
        except ValueError as error:
            raise UsageError(f"the grammar cannot be used: {error}") from None
        if matcher.is_error():
            raise UsageError(f"the grammar cannot be used: {matcher.get_error()}")
        return GrammarGuide(matcher, self._end_ids[0])
