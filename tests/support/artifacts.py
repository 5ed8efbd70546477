"""What a build keeps of a run of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.processes import ROOT


def artifact(name: str) -> Path:
    """Where a build keeps the file `name`: in STREAMHOLD_ARTIFACTS, or build/artifacts."""
    folder = Path(os.environ.get("STREAMHOLD_ARTIFACTS") or ROOT / "build" / "artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
