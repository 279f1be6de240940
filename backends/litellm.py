"""Hosted providers through litellm: OpenRouter, Cohere, OpenAI, Anthropic, Gemini, Ollama, others.

litellm translates between the formats of the providers. Its other functions are disabled: retries
belong to `LLMService`, keys are passed with each call and never put into the environment of the
process, a `.env` is not loaded implicitly, and nothing is downloaded or reported.
"""

from __future__ import annotations

from functools import partial

from openai import OpenAIError

from arena.core.errors import UsageError
from arena.llm.settings import Settings
from backends.litellm_backend import LiteLLMBackend, Provider
from backends.litellm_client import load_litellm

PROVIDERS = {
    "openrouter": Provider(
        "openrouter", "openai/gpt-4o-mini", ("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)
    ),
    "cohere": Provider(
        "cohere_chat",
        "command-r7b-12-2024",
        ("COHERE_API_KEY", "CO_API_KEY"),
        ("COHERE_API_BASE",),
    ),
    "openai": Provider(
        "openai", "gpt-4o-mini", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    ),
    "anthropic": Provider(
        "anthropic",
        "claude-haiku-4-5",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    ),
    "gemini": Provider(
        "gemini", "gemini-2.5-flash", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GEMINI_API_BASE",)
    ),
    "ollama": Provider("ollama_chat", "llama3.2", (), ("OLLAMA_API_BASE",)),
}
"""By prefix of a SPEC. The default models, for a SPEC without a model, are small and cheap."""


def any_provider(model: str, settings: Settings) -> LiteLLMBackend:
    """Return the backend of `litellm:ROUTE/MODEL`, for any provider that litellm supports."""
    if not model:
        raise UsageError("litellm: name a model as litellm does, e.g. litellm:groq/llama-3.1-8b")
    try:
        route = str(load_litellm().get_llm_provider(model)[1])
    except OpenAIError:
        raise UsageError(f"litellm:{model}: litellm does not know this provider") from None
    if route == "ollama":
        # litellm's route "ollama" is for plain prompts; `ollama` selects the route for chats.
        return ollama(model.partition("/")[2], settings)
    # A provider of the table has its own variables for key and address; others follow the usual
    # pattern.
    known = (provider for provider in PROVIDERS.values() if provider.route == route)
    provider = next(known, Provider(route, "", (f"{route.upper()}_API_KEY",)))
    key = settings.secret(*provider.keys)
    if key is None:
        # Only litellm knows whether this provider needs a key or further variables.
        missing = load_litellm().validate_environment(model)["missing_keys"]
        if missing:
            names = " and ".join(missing)
            place = " or in .env" if set(missing) <= set(provider.keys) else ""
            raise UsageError(f"litellm:{model} needs {names}: set it in the environment{place}")
    return LiteLLMBackend(model, provider, settings.service.limits("litellm"), key)


def _provider_backend(prefix: str, model: str, settings: Settings) -> LiteLLMBackend:
    provider = PROVIDERS[prefix]
    key = settings.secret(*provider.keys)
    if provider.keys and key is None:
        names = " or ".join(provider.keys)
        raise UsageError(f"{prefix} needs a key: set {names} in the environment or in .env")
    full_name = f"{provider.route}/{model or provider.default_model}"
    return LiteLLMBackend(full_name, provider, settings.service.limits(prefix), key)


openrouter = partial(_provider_backend, "openrouter")
cohere = partial(_provider_backend, "cohere")
openai = partial(_provider_backend, "openai")
anthropic = partial(_provider_backend, "anthropic")
gemini = partial(_provider_backend, "gemini")
ollama = partial(_provider_backend, "ollama")
