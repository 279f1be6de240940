"""Chats as tokens: the tokenizer of a game, in which names and fixed phrases are single tokens, and
batches of examples.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arena.agents.chat import DETAILS, HOW_TO_ANSWER
from arena.agents.notebook import row_ends, split_entry
from arena.core.game import Game
from arena.plugins.catalog import make_game
from trainers.pretrain.corpus import MAX_WHOLE_ACTIONS, SHORT_INSTRUCTION, Demonstration
from trainers.pretrain.notebook import placed_knowledge
from trainers.pretrain.recipe import Recipe

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast

ROLES = ("system", "user", "assistant")
END = "<|end|>"
PAD = "<|pad|>"
SPECIAL = (PAD, END, *(f"<|{role}|>" for role in ROLES))

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% set content = message['content'] %}"
    "{% if message['role'] == 'system' %}"
    f"{{% set parts = content.partition({json.dumps(chr(10) + DETAILS)}) %}}"
    "{% set after = parts[2].partition('\\n') %}"
    "{% set content = (parts[0] + after[1] + after[2]).replace("
    f"{json.dumps(HOW_TO_ANSWER['text'])}, {json.dumps(SHORT_INSTRUCTION)}) %}}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' + content + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""A message is the token of its role, its content, and the end token.

The instruction of other models becomes the one that these models have learned, without the details
behind it, so that they play with the same messages as any model.
"""

NAME_PREFIXES = ("", " ", ", ")
"""Separators before a name; each name has a token with each of them, unless there is one token for
each name, by which a model finds it wherever it is."""

VOCABULARY = 1024
BYTES = 256
"""Symbols of a byte-level alphabet."""
MERGES = 160
"""BPE tokens above the bytes, for words that are neither names nor phrases."""
MIN_PHRASE_COUNT = 20
"""A phrase that appears less often in the sample gets no token."""


def names_of(games: Iterable[Game]) -> list[str]:
    """Return all names in the actions and seats of these games, longest first.

    In a game with few actions, an action of several words is a name, too. The model then chooses it
    by writing one token, which it learns much sooner than writing several.
    """
    names: set[str] = set()
    for game in games:
        names.update(game.seat_names)
        if len(game.actions) <= MAX_WHOLE_ACTIONS:
            names.update(text for text in map(str, game.actions) if " " in text)
        for action in game.actions:
            fields = getattr(action, "__dataclass_fields__", ())
            values = (getattr(action, name) for name in fields)
            names.update(value for value in values if isinstance(value, str))
    # A regular expression takes the first alternative that fits: a name must come before its own
    # prefixes. Equal lengths by text, so that the order does not depend on the set.
    return sorted(names, key=lambda name: (-len(name), name))


def make_tokenizer(
    texts: Sequence[str],
    names: Sequence[str],
    prefixes: Sequence[str] = NAME_PREFIXES,
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of at most VOCABULARY tokens, or more if there are more than 200 names.

    Names, the longest first, become tokens with each of the prefixes. Phrases are found in all
    texts and fill what names, bytes and merges leave; BPE merges are found in the first 200 texts.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    name_tokens = [prefix + name for name in names for prefix in prefixes]
    # Tokens that are left for phrases. Names, bytes and merges always get theirs.
    room = max(0, VOCABULARY - len(name_tokens) - len(SPECIAL) - BYTES - MERGES)
    phrases = _phrases(texts, names, prefixes)[:room]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BYTES + MERGES,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts[:200], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    # Added tokens are found before BPE, which splits only the text between them.
    added = [AddedToken(token, normalized=False) for token in [*name_tokens, *phrases]]
    tokenizer.add_tokens(added)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _phrases(texts: Sequence[str], names: Sequence[str], prefixes: Sequence[str]) -> list[str]:
    """Return the texts between names and numbers, within a line; the most useful first."""
    # Cut at names, with the separator before them, and where digits start or end.
    separators = re.compile(
        rf"(?:{'|'.join(sorted(prefixes, reverse=True))})(?:{'|'.join(map(re.escape, names))})"
        r"|(?<=\d)(?=\D)|(?<=\D)(?=\d)"
    )
    counts = Counter(
        piece
        for text in texts
        for line in text.splitlines(keepends=True)
        for piece in separators.split(line)
        if len(piece) > 1
    )
    # Characters saved if the phrase becomes one token: count * (length - 1).
    saved = {
        piece: count * (len(piece) - 1)
        for piece, count in counts.items()
        if count >= MIN_PHRASE_COUNT
    }
    # Equal savings by text: the tokenizer must not depend on the order of counting.
    return sorted(saved, key=lambda piece: (-saved[piece], piece))


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration as tokens; both arrays have the shape [tokens]."""

    ids: NDArray[np.int32]
    is_target: NDArray[np.bool_]
    """Marks the tokens that the model learns to write; the others are context."""
    entries: tuple[tuple[int, int], ...] = ()
    """First token of each notebook entry, and the one behind it."""


def encode(demonstration: Demonstration, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Return the tokens of the chat, as its template writes it, and which are targets."""
    ids: list[Any] = []
    is_target: list[bool] = []
    entries: list[tuple[int, int]] = []
    end = tokenizer.eos_token_id
    for number, message in enumerate(demonstration.messages):
        # Speech in it may spell a control token, which it is not.
        encoded = tokenizer(message.content, split_special_tokens=True, return_offsets_mapping=True)
        text = encoded["input_ids"]
        ends = [end for _, end in encoded["offset_mapping"]]
        # A mistake is context: the model reads it with its correction.
        learned = message.role == "assistant" and number not in demonstration.only_read
        if learned and (entry := split_entry(message.content)[0]):
            first = len(ids) + 1
            entries.append((first, first + bisect_left(ends, len(entry)) + 1))
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *text, end]
        # The role token is given by the template; the text and the end token are written.
        is_target += [False, *[learned] * (len(text) + 1)]
    return Example(
        np.array(ids, dtype=np.int32),
        np.array(is_target),
        tuple(entries),
    )


def examples_of(
    chats: Sequence[Demonstration], tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> list[Example]:
    """Return the chats that fit into the context, as tokens."""
    examples = [encode(chat, tokenizer) for chat in chats]
    return [example for example in examples if len(example.ids) <= recipe.context_length]


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Chats of similar length, padded to the longest: all tensors are [chats, longest]."""

    ids: torch.Tensor  # int64
    weights: torch.Tensor  # float32: weight of the token in the loss, 0 for padding
    is_target: torch.Tensor  # bool
    entries: Sequence[tuple[int, int, int]] = ()
    """Notebook entries: the chat, the first token, and the one behind the last."""
    own_rows: float = 0.0
    """Share of the chats in which the model reads rows of its own."""

    def on(self, device: torch.device) -> PaddedBatch:
        """Return the batch with its tensors on a device."""
        tensors = {name: getattr(self, name).to(device) for name in ("ids", "weights", "is_target")}
        return replace(self, **tensors)


def batches(
    examples: Sequence[Example], recipe: Recipe, rng: np.random.Generator
) -> Iterator[PaddedBatch]:
    """Yield all examples once, in random order, in batches of at most `tokens_per_batch`."""
    order = rng.permutation(len(examples))
    # Sorted by length within pools of 512: little padding, and still another mix in each pass.
    pools = [order[i : i + 512] for i in range(0, len(order), 512)]
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(examples[i].ids))
        groups: list[list[Example]] = [[]]
        for i in by_length:
            # The new example is the longest, so it decides the padded size.
            size = (len(groups[-1]) + 1) * len(examples[i].ids)
            # An example that is too long for any batch gets one of its own.
            if groups[-1] and size > recipe.tokens_per_batch:
                groups.append([])
            groups[-1].append(examples[i])
        # Shuffled again, so that lengths do not rise within a pool.
        for g in rng.permutation(len(groups)):
            yield _pad(groups[g], recipe.context_weight)


def _pad(group: Sequence[Example], context_weight: float) -> PaddedBatch:
    import torch

    # Padding has the token id 0 and the weight 0, and is no target.
    longest = max(len(example.ids) for example in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    weights = np.zeros((len(group), longest), dtype=np.float32)
    is_target = np.zeros((len(group), longest), dtype=bool)
    for row, example in enumerate(group):
        length = len(example.ids)
        ids[row, :length] = example.ids
        weights[row, :length] = np.where(example.is_target, 1.0, context_weight)
        is_target[row, :length] = example.is_target
    return PaddedBatch(
        torch.from_numpy(ids),
        torch.from_numpy(weights),
        torch.from_numpy(is_target),
        [(row, *span) for row, example in enumerate(group) for span in example.entries],
    )


def largest_games(recipe: Recipe) -> list[Game]:
    """Return the game of each stage with the most players: together they have all names."""
    return [
        make_game(
            recipe.game,
            **{
                **recipe.options,
                **stage.options,
                **({"players": max(stage.players)} if stage.players else {}),
            },
        )
        for stage in recipe.stages
    ]


def tokenizer_for(recipe: Recipe, corpus: Sequence[Demonstration]) -> PreTrainedTokenizerFast:
    """Return a tokenizer for the recipe's game and the texts of the corpus."""
    texts = [message.content for chat in corpus[:2000] for message in chat.messages]
    # A model finds a name wherever it is if it has one token.
    prefixes = ("",) if recipe.notebook else NAME_PREFIXES
    names = [*names_of(largest_games(recipe)), *ends_of_rows(recipe)]
    return make_tokenizer(texts, names, prefixes=prefixes)


def ends_of_rows(recipe: Recipe) -> list[str]:
    """Return what ends a row of the notebook; each is one token."""
    if not recipe.notebook:
        return []
    tables = [placed_knowledge(game, 0).placement() for game in largest_games(recipe)]
    return list(dict.fromkeys(end for table in tables for end in row_ends(table.places)))


def row_tokens(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the tokens that end the rows of the notebook."""
    ids = tokenizer.get_vocab()
    return [ids[end] for end in ends_of_rows(recipe)]
