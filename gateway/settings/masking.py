"""PURE. Shows settings to people without what must stay secret."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import yaml
from pydantic import BaseModel, SecretStr

from gateway.logs import HIDDEN, hide_passwords
from gateway.settings.settings import Settings


def masked(settings: Settings) -> str:
    """`settings` as the YAML that would set them, defaults included, with `***` for each secret."""
    plain = {name: _plain(getattr(settings, name)) for name in Settings.model_fields}
    filled = {name: section for name, section in plain.items() if section}
    return yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=100)


def _plain(value: object) -> object:
    match value:
        case SecretStr():
            return HIDDEN
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case IPv4Network() | IPv6Network():
            return str(value)
        case str():
            return hide_passwords(value)
        case _:
            return value
