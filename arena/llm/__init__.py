"""Chat requests to language models: the Backend protocol and the LLMService that routes to it."""
