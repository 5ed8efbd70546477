"""A farm inside a test run: what the pytest plugin's fixtures are made of, and of use without them too.

with running_farm(Wanted(replicas=2)) as farm:
    farm.kill("a")
"""

from emulator.testing.running import OneReplica, RunningFarm, running_farm
from emulator.testing.wanted import BadMark, Wanted, wanted_from

__all__ = ["BadMark", "OneReplica", "RunningFarm", "Wanted", "running_farm", "wanted_from"]
