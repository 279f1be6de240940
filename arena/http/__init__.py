"""HTTP servers that withstand hostile clients: `arena serve`, the pages, MCP and OpenEnv."""
