"""PURE. What a gateway's /status says of its replicas."""

from __future__ import annotations

import json
from collections.abc import Mapping


def statuses_in(body: str | bytes, urls: Mapping[str, str]) -> dict[str, str] | None:
    """The status of each replica, by its name in `urls`; None for what is no answer of that kind.

    Replicas are told apart by URL, whatever the gateway calls them.
    """
    try:
        entries = json.loads(body)["replicas"]
        said = {str(entry["url"]).rstrip("/"): str(entry["status"]) for entry in entries}
    except (ValueError, KeyError, TypeError):
        return None
    return {name: said[url.rstrip("/")] for name, url in urls.items() if url.rstrip("/") in said}
