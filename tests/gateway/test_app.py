"""`gateway.app`, as a server imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import clean_environment

REPLICAS = {"GATEWAY_ROUTER__REPLICAS": '[{"url": "http://a:1"}]'}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "gateway: gateway.yaml: there is no such file here"),
        (REPLICAS | {"GATEWAY_RUNTIME__MODE": "serverless"}, "gateway: runtime mode serverless"),
    ],
)
def test_a_refusal_waits_for_no_import_of_the_server_or_the_web_framework(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    code = (
        "import sys\n"
        "try:\n"
        "    import gateway.app\n"
        "except SystemExit as exited:\n"
        "    heavy = {'litestar', 'granian', 'httpx', 'picows'} & set(sys.modules)\n"
        "    sys.exit(f'imported {heavy}' if heavy else exited.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment(environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert "imported" not in done.stderr
