"""JSON answers that end as lines do: a prompt in a terminal stands below them."""

from __future__ import annotations

from typing import Any, TypeVar

from litestar import Response
from litestar.serialization import default_serializer
from litestar.types import Serializer

T = TypeVar("T")


class JsonLine(Response[T]):
    """The answer as JSON, with a line feed at its end."""

    def render(self, content: Any, media_type: str, enc_hook: Serializer = default_serializer) -> bytes:
        body = super().render(content, media_type, enc_hook)
        if content is None:
            return body  # of an answer without a body
        is_json = media_type.partition(";")[0].endswith(("/json", "+json"))
        return body + b"\n" if is_json and not body.endswith(b"\n") else body
