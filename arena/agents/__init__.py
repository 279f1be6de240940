"""Agents: random bot, human and chat agent, and the SPEC strings that name them."""
