"""PURE. What the gateway's metrics are called in CloudWatch, for whoever scales or alarms by them.

One line is written a `metrics.interval_seconds` by each server worker, so that over that period the average
is the mean of the workers and the sum is their total. Every metric has the one dimension `SERVICE`.
"""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "Streamhold"
"""The default of `metrics.namespace`."""

SERVICE: Final = "Service"
"""The dimension: which deployment it is, by `metrics.service`."""
SERVICE_NAME: Final = "gateway"
"""The default of `metrics.service`."""

SESSIONS: Final = "Sessions"
"""Count. Sessions on replicas through this worker, those still connecting included."""
WAITING_SESSIONS: Final = "WaitingSessions"
"""Count. Sessions that wait for a place."""
SESSION_UTILISATION: Final = "SessionUtilisation"
"""Percent. Sessions, waiting ones included, of what one worker is to carry (`metrics.full_at_sessions`). What
gateways are scaled by: its average.
"""
REPLICA_UTILISATION: Final = "ReplicaUtilisation"
"""Percent. Sessions, in a fleet those of all gateways, of the places on replicas that can take sessions and
tell how many; left out while none does. What replicas are scaled by: its maximum.
"""
REPLICAS: Final = "Replicas"
"""Count. Replicas that are configured or discovered."""
HEALTHY_REPLICAS: Final = "HealthyReplicas"
"""Count. Of these, the ones that are healthy and not draining. What an alarm watches: its maximum."""
SLEEPING_REPLICAS: Final = "SleepingReplicas"
"""Count. Of these, the ones that sleep until somebody needs them; none of them is counted as healthy."""
RESUMES: Final = "Resumes"
"""Count. Sessions that went on at another replica since the line before."""
HANDED_BACK: Final = "HandedBack"
"""Count. Sessions that were handed back to the fleet, for another gateway, since the line before."""

UNITS: Final = {
    SESSIONS: "Count",
    WAITING_SESSIONS: "Count",
    SESSION_UTILISATION: "Percent",
    REPLICA_UTILISATION: "Percent",
    REPLICAS: "Count",
    HEALTHY_REPLICAS: "Count",
    SLEEPING_REPLICAS: "Count",
    RESUMES: "Count",
    HANDED_BACK: "Count",
}
"""Every metric, with its unit as CloudWatch writes it."""
