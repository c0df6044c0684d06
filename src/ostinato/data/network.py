"""Whether the hub can be reached, found out within two seconds: left to itself, a library tries again and again for twenty."""

from __future__ import annotations

import os
import socket
import threading
import urllib.parse

SECONDS = 2.0
_TRUE = ("1", "ON", "YES", "TRUE")


def endpoint() -> str:
    """$HF_ENDPOINT, or the hub itself."""
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def unreachable() -> str:
    """In words why the hub cannot be reached from here; empty when it can. A proxy that the environment names is what is asked."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        if os.environ.get(name, "").upper() in _TRUE:
            return f"{name} is set"
    from urllib.request import getproxies, proxy_bypass  # with ssl: as slow to import as numpy

    url = urllib.parse.urlsplit(endpoint())
    host = url.hostname or ""
    proxy = None if proxy_bypass(host) else getproxies().get(url.scheme)
    if proxy:
        url = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host = url.hostname or ""
    port = url.port or (80 if url.scheme == "http" else 443)
    found: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=SECONDS).close()
            found.append("")
        except OSError as error:
            found.append(f"{host}: {error.strerror or error}")

    thread = threading.Thread(target=connect, daemon=True)  # looking up a name has no time limit of its own
    thread.start()
    thread.join(SECONDS + 0.2)
    return found[0] if found else f"{host} does not answer within {SECONDS:g} s"
