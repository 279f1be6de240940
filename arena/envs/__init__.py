"""Games behind the interfaces of Gymnasium, PettingZoo, OpenEnv and MCP."""
