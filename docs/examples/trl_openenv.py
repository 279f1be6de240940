"""Train a model with TRL's GRPO in a game that OpenEnv serves, a session for each rollout.

    arena openenv serve cluedo --players 3 --opponents bot:novice --text-level deductions \
        --max-turns 40 --reward win=1,entropy_removed=0.5,format=1
    python docs/examples/trl_openenv.py --model arena --steps 3

Needs trl==1.16.0, transformers, torch and jmespath beside `arena-games[openenv]`. `--model arena`
is the bundled model, which writes its actions as text; any chat model that calls functions works
without the two settings of its tokenizer below.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from trl import GRPOConfig, GRPOTrainer

from arena.envs.openenv import GameClient, call

# The bundled model knows three roles. A call of `reply` is its own text, an answer to it is news.
TEMPLATE = """\
{%- for message in messages -%}
{{ '<|' + ('user' if message.role == 'tool' else message.role) + '|>' }}
{{- (message.content or '').partition('\\nDetails: ')[0] }}
{%- for each in message.tool_calls or [] -%}
{{ each.function.arguments.text if each.function.name == 'reply' else each.function | tojson }}
{%- endfor -%}
{{ '<|end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"""
# Every text of the bundled model is a call of `reply`.
WHOLE_TEXT_IS_A_CALL = {
    "type": "object",
    "properties": {
        "role": {"const": "assistant"},
        "content": {"const": ""},
        "tool_calls": {
            "type": "array",
            "x-regex-iterator": r"^(.+?)(?:<\|end\|>|$)",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"const": "function"},
                    "function": {
                        "type": "object",
                        "properties": {
                            "name": {"const": "reply"},
                            "arguments": {
                                "type": "object",
                                "properties": {"text": {"type": "string"}},
                            },
                        },
                    },
                },
            },
        },
    },
}


class GameSeat:
    """One seat of one game. TRL makes a tool of each public method but `reset` and `get_reward`."""

    url = "http://127.0.0.1:8000"

    def __init__(self) -> None:
        # A busy trainer may answer a ping late; the server ends silent sessions by itself.
        self._client = GameClient(
            self.url, message_timeout_s=600.0, websocket_ping_timeout_s=None
        ).sync()
        self._reward = 0.0
        self._is_over = False

    def reset(self, seed: int, **_row: object) -> str:
        """Start the game of this row; return the situation for the prompt."""
        result = self._client.reset(seed=seed)
        self._is_over, self._reward = result.done, result.reward or 0.0
        return str(result.observation.result)

    def reply(self, text: str) -> str:
        """Answer with an action of the game.

        Args:
            text: The action, as the rules write it.
        """
        if self._is_over:
            return "The game is over."
        result = self._client.step(call("reply", text=text))
        self._is_over, self._reward = result.done, self._reward + (result.reward or 0.0)
        error = result.observation.error
        return error.message if error else str(result.observation.result)

    def get_reward(self) -> float:
        """Return the reward of the game: 0 if the rollout was cut off before its end."""
        return self._reward


def load(name: str) -> tuple[AutoModelForCausalLM, PreTrainedTokenizerBase]:
    """Return the model and its tokenizer; `arena` is the bundled model."""
    if name != "arena":
        return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    import backends.embedded

    folder = Path(backends.embedded.__file__).parent / "checkpoints" / "clue-tiny"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template, tokenizer.response_schema = TEMPLATE, WHOLE_TEXT_IS_A_CALL
    return AutoModelForCausalLM.from_pretrained(folder), tokenizer


def main() -> None:
    """Train, and print the rewards of each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=GameSeat.url)
    parser.add_argument("--model", default="arena")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--group", type=int, default=4, help="rollouts of each deal")
    parser.add_argument("--calls", type=int, default=40, help="the most calls of a rollout")
    parser.add_argument("--out", default="runs/trl")
    flags = parser.parse_args()

    GameSeat.url = flags.url
    with GameClient(flags.url).sync() as client:
        rules = client.reset(seed=0).observation.rules
    # Rollouts of one row share the seed, so they share the deal: that is GRPO's group.
    prompt = [{"role": "system", "content": rules}, {"role": "user", "content": ""}]
    rows = [{"prompt": prompt, "seed": seed} for seed in range(flags.steps)]
    model, tokenizer = load(flags.model)
    trainer = GRPOTrainer(
        model,
        environment_factory=GameSeat,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows),
        args=GRPOConfig(
            output_dir=flags.out,
            max_steps=flags.steps,
            per_device_train_batch_size=flags.group,
            num_generations=flags.group,
            max_completion_length=1200,
            max_tool_calling_iterations=flags.calls,
            learning_rate=1e-4,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            bf16=False,
            shuffle_dataset=False,
        ),
    )
    trainer.train()
    for log in trainer.state.log_history:
        if "reward" in log:
            calls, failed = log["tools/call_frequency"], log["tools/failure_frequency"]
            print(
                f"step {log['step']}: reward {log['reward']:.3f}, {calls:g} calls per rollout, "
                f"{failed:g} of them failed"
            )


if __name__ == "__main__":
    main()
