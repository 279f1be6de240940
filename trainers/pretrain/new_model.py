"""A new small model: random weights of the Qwen3 architecture, and a tokenizer of the game.

Names and fixed phrases of the game are single tokens.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from pydantic import JsonValue
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from arena.agents.chat import DETAILS, HOW_TO_ANSWER
from arena.agents.notebook import row_ends
from arena.core.game import Game
from arena.plugins.catalog import make_game
from backends.embedded.architecture import parse_architecture
from trainers.algorithms.checkpoint_files import write_tensors
from trainers.pretrain.corpus import MAX_WHOLE_ACTIONS, SHORT_INSTRUCTION, Demonstration
from trainers.pretrain.notebook import placed_knowledge
from trainers.pretrain.recipe import Recipe

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
"""Separators before a name; each name has a token with each of them, except in a notebook."""

VOCABULARY = 1024
BYTES = 256
"""Symbols of a byte-level alphabet."""
MERGES = 160
"""BPE tokens above the bytes, for words that are neither names nor phrases."""
MIN_PHRASE_COUNT = 20
"""A phrase that appears less often in the sample gets no token."""
INITIAL_DEVIATION = 0.02
"""Standard deviation of new matrices."""


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


def make_tokenizer(recipe: Recipe, corpus: Sequence[Demonstration]) -> Tokenizer:
    """Return a tokenizer of at most VOCABULARY tokens, or more if there are more than 200 names.

    Names become tokens. Phrases are found in all texts of the corpus and fill what names, bytes and
    merges leave; BPE merges are found in the first 200 texts.
    """
    texts = [message.content for chat in corpus[:2000] for message in chat.messages]
    names = [*names_of(largest_games(recipe)), *ends_of_rows(recipe)]
    # A model finds a name wherever it is if it has one token.
    prefixes = ("",) if recipe.notebook else NAME_PREFIXES
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
    return tokenizer


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
    saved = {piece: count * (len(piece) - 1) for piece, count in counts.items()}
    frequent = [piece for piece, count in counts.items() if count >= MIN_PHRASE_COUNT]
    # Equal savings by text: the tokenizer must not depend on the order of counting.
    return sorted(frequent, key=lambda piece: (-saved[piece], piece))


def largest_games(recipe: Recipe) -> list[Game]:
    """Return the game of each stage with the most players: together they have all names."""
    games = list[Game]()
    for stage in recipe.stages:
        most = {"players": max(stage.players)} if stage.players else {}
        games.append(make_game(recipe.game, **{**recipe.options, **stage.options, **most}))
    return games


def ends_of_rows(recipe: Recipe) -> list[str]:
    """Return what ends a row of the notebook; each is one token."""
    if not recipe.notebook:
        return []
    tables = [placed_knowledge(game, 0).placement() for game in largest_games(recipe)]
    return list(dict.fromkeys(end for table in tables for end in row_ends(table.places)))


def write_new_model(recipe: Recipe, corpus: Sequence[Demonstration], folder: Path) -> Path:
    """Write a checkpoint of the recipe's size with random weights, and return its folder.

    transformers and vLLM load it. The corpus is a sample of the texts that it will read.
    """
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer(recipe, corpus)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
            "model_max_length": recipe.context_length,
        },
    )
    config = _model_config(recipe, tokenizer)
    _write_json(folder / "config.json", config)
    # On the CPU and with a generator of their own, so that all devices start from equal numbers.
    rng = torch.Generator().manual_seed(recipe.seed)
    weights = dict[str, torch.Tensor]()
    for name, shape in parse_architecture(config).tensor_shapes().items():
        is_norm = name.endswith("norm.weight")
        drawn = torch.ones(shape) if is_norm else torch.randn(shape, generator=rng)
        weights[name] = drawn if is_norm else INITIAL_DEVIATION * drawn
    write_tensors(weights, folder / "model.safetensors")
    return folder


def _model_config(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, JsonValue]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        # Rounded up: matrices with a multiple of 32 rows multiply faster.
        "vocab_size": math.ceil(tokenizer.get_vocab_size() / 32) * 32,
        "hidden_size": recipe.hidden_size,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "num_key_value_heads": recipe.heads,
        "head_dim": recipe.head_dim,
        "intermediate_size": recipe.mlp_size,
        "max_position_embeddings": recipe.context_length,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "tie_word_embeddings": True,
        "eos_token_id": tokenizer.token_to_id(END),
        "pad_token_id": tokenizer.token_to_id(PAD),
        "bos_token_id": None,
        "dtype": "float32",
    }


def _write_json(path: Path, content: Mapping[str, JsonValue]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
