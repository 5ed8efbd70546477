"""A project outside this repository: an environment with the package installed from its wheel, and its tests.

The environment is fresh; what the package depends on is read from where this suite's own stands, so that
nothing is downloaded. The repository itself cannot be imported there.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import BIN, ROOT, clean_environment

BUILD_SECONDS = 120
RUN_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of pytest in the project."""

    status: int
    said: str


class Outside:
    """Made once, used by many tests; each brings a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """The package is built, and installed in an environment in `folder`."""
        self._python = folder / "environment" / "bin" / "python"
        _do(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        (wheel,) = folder.glob("*.whl")
        _do(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
        options = ("--offline", "--no-cache", "--no-deps", "--python", self._python)
        _do(BIN / "uv", "pip", "install", *options, wheel)
        (place,) = (folder / "environment").glob("lib/python*/site-packages")
        # A folder named by a .pth file is looked into, and its own .pth files, which lead here, are not.
        (place / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.package = place / "emulator"
        assert self.package.is_dir()

    def python(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        """Python ran in `folder`, to its end."""
        done = subprocess.run(
            [self._python, *arguments],
            cwd=folder,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout)

    def pytest(
        self, folder: Path, tests: str, *options: str, ini: str = "", env: Mapping[str, str] | None = None
    ) -> Ran:
        """pytest ran these tests, strict about everything, with `ini` as further lines of its settings."""
        (folder / "test_it.py").write_text(tests)
        strict = (
            "addopts = --strict-markers --strict-config -p no:cacheprovider -q\n"
            # What pytest-asyncio says of a setting that is unknown to a project without it.
            "filterwarnings =\n  error\n  ignore:[\\s\\S]*asyncio_default_fixture_loop_scope\n"
        )
        (folder / "pytest.ini").write_text(f"[pytest]\n{strict}{ini}\n")
        return self.python(folder, "-m", "pytest", *options, env=env)


def _do(*command: str | Path) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
