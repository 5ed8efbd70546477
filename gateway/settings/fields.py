"""What the sections of gateway.yaml are made of: the section itself, and the kinds of values in it.

A key of a section's `later` gets its effect in a later version. Until then it is refused, unless it is null:
a setting that is silently without effect would be worse than an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from gateway.affinity import Affinity
from gateway.replicas.config import host_problem
from gateway.settings.tree import Path


def no_boolean(value: object) -> object:
    """The value, unless it is true or false."""
    # YAML reads `yes` and `on` as true, and true would pass for 1.
    if isinstance(value, bool):
        raise ValueError(f"should be a number, not {str(value).lower()}")
    return value


def one_or_more_bodies(value: object) -> object:
    """Each value as a list of plain ones."""
    if not isinstance(value, Mapping):
        return value
    for listed in value.values():
        for item in listed if isinstance(listed, list | tuple) else (listed,):
            if not (item is None or isinstance(item, str | int | float | bool)):
                raise ValueError("should list plain values for each key, as in {status: [ok, ready]}")
    return {
        key: tuple(listed) if isinstance(listed, list | tuple) else (listed,) for key, listed in value.items()
    }


def finite(range_in_words: str) -> BeforeValidator:
    """pydantic tells a value that is not a number from one that is out of range only sometimes."""

    def checked(value: object) -> object:
        try:
            number = float(value) if isinstance(value, str | float) else 0.0
        except ValueError:
            return value
        if not math.isfinite(number):
            raise ValueError(f"should be a finite number {range_in_words}, not {number}")
        return value

    return BeforeValidator(checked)


def checked_host(value: str) -> str:
    """An address to listen on."""
    if problem := host_problem(value):
        raise ValueError(problem)
    return value


def _session_path(value: str) -> str:
    if not value.startswith("/") or value == "/" or value.endswith("/") or "//" in value:
        raise ValueError(f"should be a path such as /v1/stream, without a slash at its end, not {value!r}")
    if not value.isascii() or not value.isprintable() or set(value) & set(" ?#{}%\\"):
        raise ValueError(f"should be a plain path without spaces, braces, % or a query, not {value!r}")
    if value in OWN_PATHS or value.startswith(OWN_TREES):
        raise ValueError(f"{value} is one of the gateway's own paths; choose another for sessions")
    return value


def some_distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """At least one, none of them twice."""
    if not values:
        raise ValueError("should have at least one entry")
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"has {', '.join(twice)} more than once")
    return values


def _origin(value: str) -> str:
    if value in ("*", "null"):
        return value
    try:
        parts = urlsplit(value)
        usable = bool(parts.scheme and parts.hostname) and value == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f'should be an origin such as https://app.example.com, or "*" for any, not {value!r}'
        )
    return value


def _network(value: object) -> object:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        return ip_network(value if isinstance(value, str) else "", strict=False)
    except ValueError:
        raise ValueError("should be an address or a network such as 192.0.2.7 or 10.0.0.0/8") from None


def checked_affinity(value: str) -> str:
    """What may keep a client on a replica."""
    Affinity.parse(value)
    return value


def _cloudwatch_namespace(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._/#:-]{1,255}", value) or value.startswith("AWS/"):
        raise ValueError(f"should be letters, digits and ._/#:- that do not begin with AWS/, not {value!r}")
    return value


def _cloudwatch_value(value: str) -> str:
    usable = value.isascii() and value.isprintable() and value.strip() and not value.startswith(":")
    if not usable or len(value) > 1024:
        raise ValueError(f"should be printable ASCII that does not begin with a colon, not {value[:80]!r}")
    return value


def _token(value: SecretStr) -> SecretStr:
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("a token must be printable ASCII without spaces, and not empty")
    return value


SECRETS: tuple[Path, ...] = (("clients", "tokens"), ("fleet", "url"))
"""Settings of which no message repeats a part."""
OWN_PATHS = frozenset(
    {"/status", "/router/replicas/sessions", "/healthz", "/readyz", "/metrics", "/schema", "/admin"}
)
"""HTTP paths of the gateway itself, which no session path may take."""
OWN_TREES = ("/admin/", "/schema/")
"""What lies below these is the gateway's own as well."""

Number = Annotated[float, BeforeValidator(no_boolean)]
Whole = Annotated[int, BeforeValidator(no_boolean)]
WholeOrZero = Annotated[int, BeforeValidator(no_boolean), Field(ge=0)]
Count = Annotated[int, BeforeValidator(no_boolean), Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(no_boolean), finite("above 0"), Field(gt=0, allow_inf_nan=False)]
SecondsOrZero = Annotated[
    float, BeforeValidator(no_boolean), finite("of 0 or more"), Field(ge=0, allow_inf_nan=False)
]
"""Zero means at once."""
Share = Annotated[
    float, BeforeValidator(no_boolean), finite("from 0 to 1"), Field(ge=0, le=1, allow_inf_nan=False)
]
ZeroOrMore = Annotated[
    float, BeforeValidator(no_boolean), finite("of 0 or more"), Field(ge=0, allow_inf_nan=False)
]
AboveZero = Annotated[float, BeforeValidator(no_boolean), finite("above 0"), Field(gt=0, allow_inf_nan=False)]
SessionPath = Annotated[str, AfterValidator(_session_path)]
Origin = Annotated[str, AfterValidator(_origin)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]
CloudWatchNamespace = Annotated[str, AfterValidator(_cloudwatch_namespace)]
CloudWatchValue = Annotated[str, AfterValidator(_cloudwatch_value)]
Token = Annotated[SecretStr, AfterValidator(_token)]


class Section(BaseModel):
    """A part of gateway.yaml. It has no other keys than its fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )
    later: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, given: object) -> object:
        """A section whose every line is commented out reads as null, and means its defaults."""
        if isinstance(given, dict):
            return {key: value for key, value in given.items() if value is not None or key not in cls.later}
        return {} if given is None else given


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section, or the settings, that a value of this type is; None for a list and a plain setting."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def later_in(annotation: Any) -> frozenset[str]:
    """Keys that such a section has in a later version."""
    section = section_in(annotation)
    return section.later if section is not None and issubclass(section, Section) else frozenset()
