"""Settings: gateway.yaml under GATEWAY_* variables, checked whole, as one frozen value.

The way of a configuration: `yaml_file` and `environment` read it, `loading` lays one over the other,
`checking` and `rules` find what is wrong, `startup` prints that and ends the process.

The models are plain pydantic ones. pydantic-settings would read the same sources, but it stops at the first
bad variable, ignores misspelt ones, accepts a file that is missing or empty, and cannot say where a value
came from; what would be left of it is a third of the start-up time.
"""

from gateway.settings.loading import FILE_NAME, Inspection, inspect, load
from gateway.settings.masking import masked
from gateway.settings.sections import (
    AdminSettings,
    AdmissionSettings,
    AffinitySettings,
    ClientsSettings,
    DiscoverySettings,
    DrainSettings,
    FleetSettings,
    HealthCheckSettings,
    ReplicaSettings,
    RouterSettings,
    RuntimeSettings,
    SelectionSettings,
    SessionSettings,
)
from gateway.settings.settings import Settings
from gateway.settings.startup import (
    complain,
    load_or_exit,
    long_running_steps,
    resolve_runtime,
    runtime_or_exit,
)

__all__ = [
    "FILE_NAME",
    "AdminSettings",
    "AdmissionSettings",
    "AffinitySettings",
    "ClientsSettings",
    "DiscoverySettings",
    "DrainSettings",
    "FleetSettings",
    "HealthCheckSettings",
    "Inspection",
    "ReplicaSettings",
    "RouterSettings",
    "RuntimeSettings",
    "SelectionSettings",
    "SessionSettings",
    "Settings",
    "complain",
    "inspect",
    "load",
    "load_or_exit",
    "long_running_steps",
    "masked",
    "resolve_runtime",
    "runtime_or_exit",
]
