"""What `check` prints of settings."""

from __future__ import annotations

from pathlib import Path

import yaml

from gateway.settings import Settings, load, masked

ENVIRON = {
    "GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1", "name": "a", "max_sessions": 4}]',
    "GATEWAY_CLIENTS__TOKENS": '["hush-one", "hush-two"]',
    "GATEWAY_FLEET__URL": "rediss://user:hush@redis.internal:6379/0",
    "GATEWAY_CLIENTS__TRUSTED_PROXIES": '["10.0.0.0/8"]',
}


def test_secrets_are_masked_one_by_one(tmp_path: Path) -> None:
    settings = load(ENVIRON, tmp_path)
    assert "hush" not in masked(settings)
    assert yaml.safe_load(masked(settings))["clients"]["tokens"] == ["***", "***"]
    assert yaml.safe_load(masked(settings))["fleet"]["url"] == "***"
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings)


def test_what_is_printed_would_set_the_same(tmp_path: Path) -> None:
    hidden = {"GATEWAY_CLIENTS__TOKENS": "[]", "GATEWAY_FLEET__URL": "null"}
    settings = load(ENVIRON | hidden, tmp_path)
    (tmp_path / "gateway.yaml").write_text(masked(settings))
    assert load({}, tmp_path) == settings


def test_every_setting_is_printed(tmp_path: Path) -> None:
    printed = yaml.safe_load(masked(load(ENVIRON, tmp_path)))
    for section, field in Settings.model_fields.items():
        fields = getattr(field.annotation, "model_fields", {})
        assert set(printed.get(section, {})) == set(fields), section


def test_every_setting_says_what_it_is() -> None:
    undocumented = [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        for name, inner in getattr(field.annotation, "model_fields", {}).items()
        if not inner.description and not hasattr(inner.annotation, "model_fields")
    ]
    assert undocumented == []
