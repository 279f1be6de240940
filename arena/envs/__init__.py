"""Games behind the interfaces of Gymnasium, PettingZoo, OpenEnv, MCP and inspect_ai."""
