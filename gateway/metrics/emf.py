"""PURE. Metrics as a line of the log, in CloudWatch's embedded metric format (EMF).

A log event that is such a JSON object, and nothing else, is made into metrics by CloudWatch Logs itself. So
the gateway calls nobody, needs no permission, no endpoint and no retry, loses nothing while AWS is slow, and
a container's log driver is all that is needed; `put_metric_data` would need all of that, in each worker.

Specification: CloudWatch User Guide, "Embedded metric format specification".
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.metrics.names import SERVICE, UNITS


def emf_line(
    values: Mapping[str, float], *, namespace: str, service: str, at_ms: int, worker: str | None = None
) -> str:
    """`values`, by the names in `gateway.metrics.names`, as measured `at_ms` milliseconds after the epoch.

    `worker` is no dimension, which would make a metric of each process, but can be searched for.
    """
    metrics = [{"Name": name, "Unit": UNITS[name]} for name in values]
    about = {"Namespace": namespace, "Dimensions": [[SERVICE]], "Metrics": metrics}
    head = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [about]}, SERVICE: service}
    told = {"Worker": worker} if worker is not None else {}
    return json.dumps({**head, **told, **values}, allow_nan=False, separators=(",", ":"))
