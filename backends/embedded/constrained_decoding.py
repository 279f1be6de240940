"""Constrained decoding: the tokens that may come next in an answer (the token mask)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.plugins.catalog import require
from backends.embedded.token_sampling import SamplingParams, TokenIds
from backends.embedded.tokenizer import CheckpointTokenizer

MAX_CACHED_BYTES = 64 * 2**20
"""Bytes of choices and their tokens, which clients send. About 50,000 lists of a game's actions."""
MAX_CHOICES, MAX_CHOICE_CHARACTERS = 100_000, 8 << 20
"""Texts of one constraint, and their characters together."""
MAX_SCHEMA_CHARACTERS = 32_768
"""Characters of a JSON schema, which native code compiles; its patterns grow in memory."""
JSON_FORMAT: Any = {
    "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "
}  # fmt: skip
"""The format of `json.dumps`. Flexible white space would let an answer be blank for ever."""


class TokenConstraint(Protocol):
    """Constraint on one answer; its state advances with each token."""

    def allowed(self) -> TokenIds:
        """Return the ids that may come next, ascending; never empty before the end token."""

    def advance(self, token: int) -> None:
        """Continue after this token."""


@dataclass(slots=True)
class ChoiceConstraint:
    """Constraint to one of several texts.

    Each text is tokenized in one way only, the tokenizer's own; the end token follows it. The
    texts that begin with the tokens so far are neighbours, because all are sorted.
    """

    tokens: NDArray[np.int32]
    """Tokens of all texts in ascending order, one text after the other."""
    next: NDArray[np.int64]
    """Place of the next token of each text that is left."""

    @classmethod
    def to(cls, sequences: Iterable[Sequence[int]]) -> ChoiceConstraint:
        """Sort sequences, of which none may be the beginning of another one."""
        ordered = sorted(set(map(tuple, sequences)))
        starts = np.cumsum([0, *(len(sequence) for sequence in ordered[:-1])], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(ordered), dtype=np.int32), starts)

    def allowed(self) -> TokenIds:
        return np.unique(self.tokens[self.next]).astype(np.int64)

    def advance(self, token: int) -> None:
        # The column of next tokens ascends, so equal ones lie between two places.
        column = self.tokens[self.next]
        first, last = (int(column.searchsorted(token, side)) for side in ("left", "right"))
        self.next = self.next[first:last] + 1


class SchemaConstraint:
    """Constraint to a JSON schema, computed by llguidance."""

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


@dataclass(slots=True)
class ConstraintFactory:
    """Creates constraints for one tokenizer and caches tokenized choices."""

    tokenizer: CheckpointTokenizer
    vocabulary: int
    end_ids: Sequence[int]
    _choices: dict[tuple[str, ...], ChoiceConstraint] = field(default_factory=dict, init=False)
    _cached_bytes: int = field(default=0, init=False)
    _grammar_tokenizer: Any = field(default=None, init=False)

    def create(self, params: SamplingParams) -> TokenConstraint | None:
        """Return the constraint that the parameters ask for, if any.

        Raises UsageError for an invalid schema, MissingDependency without llguidance.
        """
        if params.guided_choice:  # Without a grammar engine.
            return copy(self._constrain_to(params.guided_choice))
        return None if params.guided_json is None else self._follow_schema(params.guided_json)

    def _constrain_to(self, choices: tuple[str, ...]) -> ChoiceConstraint:
        """Return the constraint to these texts before the first token; it is cached."""
        if choices in self._choices:
            return self._choices[choices]
        size = sum(map(len, choices))
        if len(choices) > MAX_CHOICES or size > MAX_CHOICE_CHARACTERS:
            raise UsageError(
                f"guided_choice: {len(choices)} texts of {size} characters; at most {MAX_CHOICES} "
                f"of {MAX_CHOICE_CHARACTERS} together"
            )
        encoded = self.tokenizer.encode_plain(choices)
        if not all(encoded):
            raise UsageError("guided_choice: a choice is empty")
        # The end token closes a choice, so that a choice may be a prefix of another one.
        made = ChoiceConstraint.to([*ids, self.end_ids[0]] for ids in encoded)
        size = made.tokens.nbytes + made.next.nbytes + sum(map(getsizeof, choices))
        if self._cached_bytes + size > MAX_CACHED_BYTES:
            self._choices, self._cached_bytes = {}, 0
        self._choices[choices] = made
        self._cached_bytes += size
        return made

    def _follow_schema(self, schema: dict[str, JsonValue]) -> TokenConstraint:
        require("an answer that follows a JSON schema", ("llguidance",), "embedded")
        import llguidance

        if (size := len(json.dumps(schema))) > MAX_SCHEMA_CHARACTERS:
            raise UsageError(
                f"the JSON schema has {size} characters, more than {MAX_SCHEMA_CHARACTERS}"
            )
        limits = llguidance.LLParserLimits(max_lexer_states=20_000, max_grammar_size=50_000)
        if self._grammar_tokenizer is None:  # Built at first use.
            self._grammar_tokenizer = llguidance.LLTokenizer(
                self.tokenizer.raw.to_str(), n_vocab=self.vocabulary, eos_token=self.end_ids[0]
            )
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=JSON_FORMAT)
            matcher = llguidance.LLMatcher(
                self._grammar_tokenizer, grammar, log_level=0, limits=limits
            )
        except ValueError as error:
            raise UsageError(f"the JSON schema cannot be used: {error}") from None
        if matcher.is_error():
            raise UsageError(f"the JSON schema cannot be used: {matcher.get_error()}")
        return SchemaConstraint(matcher, self.end_ids[0])
