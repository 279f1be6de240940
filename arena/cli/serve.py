"""`arena serve`: host a model for other programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import Flag, flag_groups


@dataclass(frozen=True, slots=True)
class ServerLimitFlags:
    """Flags for what clients may use of the server."""

    max_queue: Annotated[
        int, Flag(min=1, help="Requests that may wait for a slot; more get status 429.")
    ] = 1024
    max_body_bytes: Annotated[
        int, Flag(min=1, help="Largest body in bytes; a larger one gets status 413.")
    ] = 2_000_000
    max_queue_bytes: Annotated[
        int, Flag(min=1, help="Bytes of all requests in progress; beyond it they get status 503.")
    ] = 64_000_000
    max_connections: Annotated[
        int, Flag(min=1, help="Above half of it, new connections replace stalled ones.")
    ] = 4096
    max_adapters: Annotated[
        int | None, Flag(min=1, help="Loading one more unloads the oldest. Default: keep all.")
    ] = None


@dataclass(frozen=True, slots=True)
class ServerLogFlags:
    """Flags for what the server writes about requests and itself."""

    log_requests: Annotated[
        bool, Flag("--log-requests", help="Write a line of JSON per request to standard error.")
    ] = False
    log_file: Annotated[
        Path | None, Flag(help="Request log in this file, of at most twice 50 MB.")
    ] = None
    log_bodies: Annotated[
        bool, Flag("--log-bodies", help="Request log with the requests' bodies: the prompts.")
    ] = False
    verbose: Annotated[bool, Flag("--verbose", help="Log what the server does.")] = False


@flag_groups
def serve_command(
    limits: ServerLimitFlags,
    logs: ServerLogFlags,
    model: Annotated[
        str, typer.Argument(help="clue-tiny, or a model's folder in the Hugging Face format.")
    ] = "clue-tiny",
    host: Annotated[
        str, Flag(help="Where to listen. Beyond this machine ARENA_API_KEY must be set.")
    ] = "127.0.0.1",
    port: Annotated[int, Flag(min=0, max=65535, help="0 takes a free one.")] = 5001,
    lora_root: Annotated[
        Path | None, Flag(help="Let clients load LoRA adapters from below this folder.")
    ] = None,
    context: Annotated[
        int | None, Flag(min=1, help="Tokens of prompt and answer. Default: the model's.")
    ] = None,
    slots: Annotated[int, Flag(min=1, help="Answers sampled at once.")] = 32,
    device: Annotated[str, Flag(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int | None, Flag(min=1, help="Default: one per CPU, at most 4.")] = None,
    drain_seconds: Annotated[
        float, Flag(min=0, help="After SIGTERM, how long running requests may take.")
    ] = 30.0,
    tokens_as_ids: Annotated[
        bool,
        Flag("--return-tokens-as-token-ids", help="Spell logprobs' tokens 'token_id:ID', for ART."),
    ] = False,
) -> int:
    """Serve a model to OpenAI-compatible clients, and to `arena play --backend art`.

    With ARENA_API_KEY set, in the environment or .env, clients must send it as a bearer token.
    """
    from backends.server import ServeOptions, serve

    return serve(
        ServeOptions(
            model,
            host=host,
            port=port,
            lora_root=lora_root,
            context=context,
            slots=slots,
            device=device,
            threads=threads,
            drain_seconds=drain_seconds,
            tokens_as_ids=tokens_as_ids,
            **asdict(limits),
            **asdict(logs),
        )
    )
