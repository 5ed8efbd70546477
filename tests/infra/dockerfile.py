"""Reads a Dockerfile as far as ours goes: stages, what an image ends up with, and its build's commands, which
can be run here without a container.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LINE = re.compile(r"(?P<keyword>[A-Z]+)\s+(?P<rest>.*)", re.DOTALL)
HEALTH = re.compile(r"(?P<options>(?:--\S+\s+)*)CMD\s+(?P<command>\[.*\])", re.DOTALL)
SOURCE = re.compile(r"--from=(\S+)\s+(.*)")
UV = Path(sys.executable).with_name("uv")
NOT_HERE = ("UV_NO_CACHE", "UV_COMPILE_BYTECODE", "UV_LINK_MODE", "PIP_NO_CACHE_DIR")
"""What the build sets for the sake of the image alone, and costs time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction."""

    keyword: str
    rest: str


@dataclass(slots=True)
class Stage:
    """From one FROM to the next."""

    name: str
    base: str
    steps: list[Step] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        return [step.rest for step in self.steps if step.keyword == keyword]


@dataclass(frozen=True, slots=True)
class Health:
    """A HEALTHCHECK in exec form."""

    command: Sequence[str]
    options: Mapping[str, str]
    """As in {"interval": "10s"}."""


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The stages, and the ARGs before them."""

    args: Mapping[str, str]
    stages: Mapping[str, Stage]

    def lineage(self, name: str) -> list[Stage]:
        """The stage and those that it is built on, the first one first."""
        stage = self.stages[name]
        return [*(self.lineage(stage.base) if stage.base in self.stages else ()), stage]

    def base_image(self, name: str) -> str:
        """What the first of its lineage is built from."""
        return re.sub(r"\$\{(\w+)\}", lambda found: self.args[found[1]], self.lineage(name)[0].base)

    def everything(self, name: str, keyword: str) -> list[str]:
        """Of the stage and those below it, in order."""
        return [rest for stage in self.lineage(name) for rest in stage.all(keyword)]

    def last(self, name: str, keyword: str) -> str:
        """The one that holds."""
        return self.everything(name, keyword)[-1]

    def environment(self, name: str) -> dict[str, str]:
        """What ENV sets; $PATH is left in it."""
        pairs = (word.partition("=") for rest in self.everything(name, "ENV") for word in shlex.split(rest))
        return {key: value for key, _, value in pairs}

    def command(self, name: str) -> list[str]:
        """CMD in exec form. Raises ValueError for a shell form."""
        return _exec_form(self.last(name, "CMD"))

    def health(self, name: str) -> Health:
        found = HEALTH.fullmatch(self.last(name, "HEALTHCHECK"))
        if found is None:
            raise ValueError("the HEALTHCHECK has no exec form")
        options = dict(word.removeprefix("--").split("=") for word in found["options"].split())
        return Health(_exec_form(found["command"]), options)

    def exposed(self, name: str) -> set[int]:
        return {int(port) for rest in self.everything(name, "EXPOSE") for port in rest.split()}


def read(text: str) -> Dockerfile:
    """The Dockerfile; raises ValueError where it is none that we would write."""
    args: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for step in _steps(text):
        if step.keyword == "FROM":
            base, _, name = step.rest.partition(" AS ")
            stage = stages[name] = Stage(name, base)
        elif stage is not None:
            stage.steps.append(step)
        elif step.keyword == "ARG":
            key, _, value = step.rest.partition("=")
            args[key] = value
        else:
            raise ValueError(f"{step.keyword} before any FROM")
    return Dockerfile(args, stages)


def _steps(text: str) -> Iterator[Step]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for logical in re.split(r"(?<!\\)\n", "\n".join(lines)):
        if joined := logical.replace("\\\n", "").strip():
            found = LINE.fullmatch(joined)
            if found is None:
                raise ValueError(f"not an instruction: {joined}")
            yield Step(found["keyword"], re.sub(r"\s{2,}", " ", found["rest"]))


def _exec_form(text: str) -> list[str]:
    words = json.loads(text)
    if not isinstance(words, list) or not words:
        raise ValueError(f"no exec form: {text}")
    return [str(word) for word in words]


class BuiltHere:
    """What the build of a venv leaves, made in a folder of this machine by the same commands: their absolute
    paths stand below that folder; `python` and `pip` are those of a fresh environment in place of the base.
    """

    def __init__(self, dockerfile: Dockerfile, context: Path, root: Path) -> None:
        self._dockerfile, self._context, self._root = dockerfile, context, root
        self._done: set[str] = set()
        self._base = root / "base"
        root.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self._base], check=True)
        # uv in the place of pip: the same words, and what has been fetched once is not fetched again.
        pip = self._base / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nexec {UV} pip "$@" --python {self._base}\n')
        pip.chmod(0o755)

    def build(self, name: str) -> None:
        """Run the stage `name`, and those that it is built on or copies from; each once."""
        for stage in self._dockerfile.lineage(name):
            if stage.name in self._done:
                continue
            self._done.add(stage.name)
            for step in stage.steps:
                match step.keyword:
                    case "COPY":
                        self._copy(stage.name, step.rest)
                    case "RUN":
                        self._run(stage.name, step.rest)
                    case "WORKDIR":
                        self.place(step.rest).mkdir(parents=True, exist_ok=True)
                    case _:
                        pass

    def place(self, path: str) -> Path:
        """Where `path` of the image is here."""
        return self._root / path.lstrip("/")

    def _folder(self, stage: str) -> Path:
        return self.place(self._dockerfile.last(stage, "WORKDIR"))

    def _copy(self, stage: str, rest: str) -> None:
        if found := SOURCE.fullmatch(rest):
            self.build(found[1])
            source, target = found[2].split()
            assert self.place(source) == self._folder(stage) / target, "one folder is all stages' here"
            return
        *sources, target = rest.split()
        for source in sources:
            for path in sorted(self._context.glob(source)):
                into = self._folder(stage) / target
                if path.is_dir():
                    shutil.copytree(path, into, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    if target.endswith("/"):
                        into.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, into)

    def _run(self, stage: str, command: str) -> None:
        here = re.sub(r"(?<![\w/.])/(build|opt)\b", lambda found: str(self.place(found[0])), command)
        environment = dict(os.environ) | self._dockerfile.environment(stage)
        environment = {key: value for key, value in environment.items() if key not in NOT_HERE}
        environment["PATH"] = f"{self._base / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", here],
            cwd=self._folder(stage),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stdout}\n{done.stderr}"
