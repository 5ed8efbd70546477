"""PURE. What the health routes say, as the real server says it: liveness, readiness, and the state of its
one GPU."""

from __future__ import annotations

from typing import Any

SERVICE = "ltx2-streaming-backend"


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
