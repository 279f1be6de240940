"""`arena serve`: an OpenAI-compatible server for the embedded sampler.

Routes: POST /v1/chat/completions, /v1/completions, /v1/load_lora_adapter,
/v1/unload_lora_adapter and /llm_request; GET /v1/models, /health and /metrics.
"""
