"""Seats for clients of the Model Context Protocol: `arena mcp` and `arena play --seat I=mcp`.

tables.py   the games of a server, the handles of their seats, and what a seat is told
server.py   tools and resources, over standard streams and over HTTP; needs the extra `mcp`
"""
