"""Names of this machine: what a server that only this machine may ask goes by.

A web page in a browser on this machine may ask such a server too. Its requests carry a foreign
Origin or, once its own name has been rebound to 127.0.0.1, a foreign Host.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback_name(name: str) -> bool:
    """Whether a name means this machine without asking anybody."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_loopback_host(header: str) -> bool:
    """The same of a Host header, which may name a port."""
    try:
        return is_loopback_name(urlsplit(f"//{header.lower()}").hostname or "")
    except ValueError:  # Brackets that do not match, and the like.
        return False


def is_own_origin(origin: str, host: str) -> bool:
    """Whether the page that asks came from the server that it asks."""
    return origin.lower() in {f"http://{host.lower()}", f"https://{host.lower()}"}
