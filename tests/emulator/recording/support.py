"""A replica behind a recording proxy, and what was recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from emulator.recording.format import Recording
from emulator.recording.proxy import RecordingProxy
from emulator.recording.reading import read
from emulator.recording.recorder import Recorder


class Recorded:
    """A proxy that runs, and its file."""

    def __init__(self, proxy: RecordingProxy, file: Path) -> None:
        self.url = f"ws://127.0.0.1:{proxy.port}"
        self.http = f"http://127.0.0.1:{proxy.port}"
        self._file = file

    def read(self) -> Recording:
        with self._file.open("rb") as lines:
            return read(lines)


@asynccontextmanager
async def recorded(folder: Path, of: str) -> AsyncIterator[Recorded]:
    """`of`: http or ws URL of what is recorded."""
    file = folder / "recording.jsonl"
    of = of.replace("http", "ws", 1).removesuffix("/v1/stream")
    with Recorder(file, of) as recorder:
        async with RecordingProxy(of, recorder) as proxy:
            yield Recorded(proxy, file)


@contextmanager
def lines_of(folder: Path, lines: Sequence[str]) -> Iterator[Path]:
    """A file of these lines."""
    file = folder / "lines.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines))
    yield file
