"""A tokenizer for the texts of one game, in which names and fixed phrases are single tokens.

It is a byte-level BPE, which can encode any text without loss, with added tokens for the names of
the game and for the phrases between names. A whole game then fits into a short context.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from arena.agents.chat import DETAILS, HOW_TO_ANSWER
from arena.core.game import Game

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROLES = ("system", "user", "assistant")
END = "<|end|>"
PAD = "<|pad|>"
SPECIAL = (PAD, END, *(f"<|{role}|>" for role in ROLES))

SHORT_INSTRUCTION = "You may think first. The last action that you write is the one that counts."
"""Form of an answer in the prompts of pretraining: small models answer with the action alone."""

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

MAX_WHOLE_ACTIONS = 100
"""A game with at most this number of actions has a token for each; others have one per name."""

NAME_PREFIXES = ("", " ", ", ")
"""Separators before a name; each name has a token with each of them."""

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
    texts: Sequence[str], names: Sequence[str], vocabulary: int = 1024
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of at most `vocabulary` tokens, or more if there are more than 200 names.

    Args:
        texts: a sample of messages; phrases are found in all, BPE merges in the first 200.
        names: the names that become tokens, longest first.
        vocabulary: number of tokens; phrases fill what names, bytes and merges leave.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    name_tokens = [prefix + name for name in names for prefix in NAME_PREFIXES]
    # Tokens that are left for phrases. Names, bytes and merges always get theirs.
    room = max(0, vocabulary - len(name_tokens) - len(SPECIAL) - BYTES - MERGES)
    phrases = _phrases(texts, names)[:room]
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


def _phrases(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the texts between names and numbers, within a line; the most useful first."""
    # Cut at names, with the separator before them, and where digits start or end.
    separators = re.compile(
        rf"(?:, | )?(?:{'|'.join(map(re.escape, names))})|(?<=\d)(?=\D)|(?<=\D)(?=\d)"
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
