"""`status`: the stacks, the service, its gateways. Exit status 0 when all is well."""

from __future__ import annotations

from infra.errors import Unfinished
from infra.gateways import Gateways
from infra.service import service_lines, troubles
from infra.stack import Stack, is_well
from infra.work import Work


def status(work: Work) -> int:
    """0. Raises Unfinished with everything that is not well."""
    say = work.watch.telling.line
    wrong: list[str] = []
    stacks: dict[str, Stack] = {}
    for part in work.templates:
        stack = work.stack(part)
        if stack is None:
            say(f"{work.stack_name(part)}: not there")
            continue
        stacks[part] = stack
        say(f"{stack.name}: {stack.status}")
        if not is_well(stack):
            wrong += work.failure(stack)
    service = stacks.get("service")
    if service is None:
        raise Unfinished(f"there is no {work.stack_name('service')} in {work.aws.region}", *wrong)
    if "LoadBalancerDnsName" in service.outputs:
        say(f"load balancer: {service.outputs['LoadBalancerDnsName']}")
    try:
        seen = Gateways.of(work.aws, service).seen()
    except Unfinished as absent:
        raise Unfinished(*wrong, *absent.lines) from None
    work.watch.telling.lines(service_lines(seen, work.watch.clock.now()))
    found = troubles(seen)
    if found:
        work.watch.telling.lines(f"  ECS: {event}" for event in seen.events)
    if wrong or found:
        raise Unfinished(*wrong, *found)
    say("all is well")
    return 0
