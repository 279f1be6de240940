"""Seats for clients of the Model Context Protocol: `arena mcp`.

tables.py   the games of a server, the handles of their seats, and the texts of a seat
server.py   tools, over standard streams and over HTTP; needs the extra `mcp`
"""
