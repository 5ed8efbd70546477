"""Settings: gateway.yaml under GATEWAY_* variables, checked whole, as one frozen value.

`environment` and `yaml_file` read the configuration. `loading` gives both to `Settings`, a pydantic-settings
model, as its sources, and pydantic-settings lays the first over the second and validates. Its stock sources
are not used: they read the process's own environment whatever is asked for, stop at the first bad variable,
ignore misspelt ones, take a missing or empty file for no settings, and cannot say where a value came from.

Where that fails, it has told one thing of many. So a second pass, `checking`, goes over what the sources came
to and finds all that is wrong, between fields as well; `loading` puts the line of the file or the variable to
each problem, and `startup` prints them and ends the process. Settings made by hand or `for_router` have their
arguments for their only source, and keep the same rules.
"""

from gateway.settings.loading import FILE_NAME, Inspection, inspect, load
from gateway.settings.meeting import DiscoverySettings, FleetSettings
from gateway.settings.sections import (
    AdminSettings,
    AdmissionSettings,
    AffinitySettings,
    ClientsSettings,
    DrainSettings,
    HealthCheckSettings,
    OutlierSettings,
    ReplicaSettings,
    RouterSettings,
    RuntimeSettings,
    SelectionSettings,
    SessionSettings,
)
from gateway.settings.settings import Settings, masked
from gateway.settings.startup import (
    bindable_or_exit,
    complain,
    first_of,
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
    "OutlierSettings",
    "ReplicaSettings",
    "RouterSettings",
    "RuntimeSettings",
    "SelectionSettings",
    "SessionSettings",
    "Settings",
    "bindable_or_exit",
    "complain",
    "first_of",
    "inspect",
    "load",
    "load_or_exit",
    "long_running_steps",
    "masked",
    "resolve_runtime",
    "runtime_or_exit",
]
