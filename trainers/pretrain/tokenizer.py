"""A tokenizer for one game's table talk: its names and its set phrases are single tokens.

Byte-level BPE beneath, so that any text can be read and written and nothing is lost; above it
added tokens for the names of the game and for the phrases that stand between names. A whole game
then fits a short context.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from arena.core.game import Game

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROLES = ("system", "user", "assistant")
END = "<|end|>"
PAD = "<|pad|>"
SPECIAL = (PAD, END, *(f"<|{role}|>" for role in ROLES))

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""A message is the token of its role, its content, and the end token."""

WHOLE_ACTIONS = 100
"""A game with at most so many actions has a token for each; else their names are tokens."""

BEFORE = ("", " ", ", ")
"""What may stand before a name and belongs to its token."""


def names_of(games: Iterable[Game]) -> list[str]:
    """Every name that actions and seats of these games use, longest first.

    Where there are few actions, those of several words are names, too: to choose one is then to
    write one token, which is learned much sooner than to put it together.
    """
    names: set[str] = set()
    for game in games:
        names.update(game.seat_names)
        if len(game.actions) <= WHOLE_ACTIONS:
            names.update(text for text in map(str, game.actions) if " " in text)
        for action in game.actions:
            fields = getattr(action, "__dataclass_fields__", ())
            values = (getattr(action, name) for name in fields)
            names.update(value for value in values if isinstance(value, str))
    return sorted(names, key=lambda name: (-len(name), name))


def make_tokenizer(
    texts: Sequence[str], names: Sequence[str], vocabulary: int = 1024
) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `vocabulary` tokens, from a sample of texts."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    given = [before + name for name in names for before in BEFORE]
    phrases = _phrases(texts, names)[: vocabulary - len(given) - len(SPECIAL) - 256 - 160]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + 160,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts[:200], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in [*given, *phrases]])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _phrases(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """What stands between names and numbers, within a line; those that save most come first."""
    between = re.compile(
        rf"(?:, | )?(?:{'|'.join(map(re.escape, names))})|(?<=\d)(?=\D)|(?<=\D)(?=\d)"
    )
    counts = Counter(
        piece
        for text in texts
        for line in text.splitlines(keepends=True)
        for piece in between.split(line)
        if len(piece) > 1
    )
    worth = {piece: count * (len(piece) - 1) for piece, count in counts.items() if count >= 20}
    return sorted(worth, key=lambda piece: (-worth[piece], piece))
