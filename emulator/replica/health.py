"""PURE. What the health routes say, as the real server says it: liveness, readiness, and the state of its
one GPU; and what faults make of that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from emulator.faults import BadJson, Flap, HealthStatus, HugeBody, Redirect
from emulator.faults.fault import Fault

SERVICE = "ltx2-streaming-backend"
PART_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a plain request."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Beside those that say what the body is."""
    padding_bytes: int = 0
    """How much longer the body is, by a key of its own that means nothing."""

    @property
    def size_bytes(self) -> int:
        """Of the whole body."""
        return sum(len(part) for part in self._ends) + self.padding_bytes

    def parts(self) -> Iterator[bytes]:
        """The body, in parts of bounded size."""
        before, after = self._ends
        yield before
        for at in range(0, self.padding_bytes, PART_BYTES):
            yield b"x" * min(PART_BYTES, self.padding_bytes - at)
        if after:
            yield after

    @property
    def _ends(self) -> tuple[bytes, bytes]:
        return (self.body[:-1] + b',"padding":"', b'"}') if self.padding_bytes else (self.body, b"")


def answer_of(status: int, body: dict[str, Any]) -> Answer:
    """A JSON object."""
    return Answer(status, json.dumps(body, separators=(",", ":")).encode())


def answer_under(fault: Fault, answer: Answer) -> Answer:
    """What becomes of the answer of a health route; most faults leave it alone."""
    match fault:
        case HealthStatus(status=status):
            return answer_of(status, {"status": "error", "detail": "told to by a fault"})
        case Flap():
            return answer_of(503, {"status": "error", "detail": "told to by a fault"})
        case Redirect(status=status, location=location):
            moved = answer_of(status, {"status": "moved"})
            return replace(moved, headers=(("Location", location),))
        case BadJson(body=body):
            return Answer(200, body.encode(errors="surrogatepass"))
        case HugeBody(size_bytes=size_bytes) if answer.body.endswith(b"}"):
            return replace(answer, padding_bytes=size_bytes)
        case _:
            return answer


def body_of(path: str, *, warming: bool, sessions: int, capacity: int, at: str) -> dict[str, Any]:
    """The JSON body of a route of HEALTH_PATHS; `at` is the time in ISO form.

    While warming, `/health` says so too: a gateway that asks only there must not take the replica for ready.
    """
    ready = not warming
    free = ready and sessions < capacity
    match path:
        case "/health":
            return {"status": "ok" if ready else "warming", "sessions": sessions, "stream_mode": "av_fmp4"}
        case "/healthz":
            return {"status": "ok", "service": SERVICE, "ts": at}
        case "/readyz":
            return {
                "status": "ready" if ready else "warming",
                "service": SERVICE,
                "ready_gpu_workers": int(ready),
                "total_gpus": 1,
                "available_gpus": int(free),
                "warmup_successful_gpus": int(ready),
                "warmup_failed_gpus": 0,
                "queue_size": 0,
                "ts": at,
            }
        case _:
            return {
                "total_gpus": 1,
                "available_gpus": int(free),
                "queue_size": 0,
                "warmup_enabled": False,
                "warmup_successful_gpus": int(ready),
                "warmup_failed_gpus": 0,
                "gpu_status": {
                    "0": {
                        "ready": ready,
                        "available": free,
                        "client_count": sessions,
                        "current_model_id": None,
                        "process_alive": True,
                        "warmup_enabled": False,
                        "warmup_success": ready,
                        "warmup_error": None,
                        "warmup_timings": {},
                    }
                },
            }
