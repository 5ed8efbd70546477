"""CloudFormation as moto does not play it: stacks that take their time, fail, roll back and keep change sets.

A stack goes through acts, one each time that it is asked for: its state, and what happens to its resources.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.fake_aws import Answer, Failure, FakeAws

BEGAN = datetime(2026, 3, 1, 11, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Act:
    """One moment of a stack. The events are `resource status` or `resource status reason`."""

    status: str
    events: tuple[str, ...] = ()
    until: threading.Event | None = None
    """The act lasts until that is set."""


def quickly(verb: str, *events: str) -> list[Act]:
    """Something that goes well: seen once under way, then done."""
    return [Act(f"{verb}_IN_PROGRESS", events), Act(f"{verb}_COMPLETE")]


@dataclass(slots=True)
class FakeStack:
    """One stack."""

    name: str
    id: str
    status: str
    acts: list[Act] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    template: str = "Resources: {A: {Type: AWS::Logs::LogGroup}}"
    protected: bool = False
    change_sets: list[str] = field(default_factory=list)
    played: set[str] = field(default_factory=set)
    """The events of its acts that have happened."""


class FakeStacks:
    """All of them. `creating`, `updating` and `deleting` are the acts of what is begun next, by stack."""

    def __init__(self, aws: FakeAws) -> None:
        self.stacks: dict[str, FakeStack] = {}
        self.creating: dict[str, list[Act]] = {}
        self.updating: dict[str, list[Act] | None] = {}
        """None is an update that would change nothing."""
        self.deleting: dict[str, list[Act]] = {}
        self.outputs: dict[str, Mapping[str, str]] = {}
        self.changes: list[Mapping[str, Any]] = []
        self.change_set_states = ["CREATE_PENDING", "CREATE_COMPLETE"]
        self.change_set_reason = ""
        self._page = 2
        self._made = 0
        self._looks: dict[str, int] = {}
        for operation in (
            "DescribeStacks",
            "DescribeStackEvents",
            "CreateStack",
            "UpdateStack",
            "DeleteStack",
            "GetTemplate",
            "CreateChangeSet",
            "DescribeChangeSet",
            "DeleteChangeSet",
            "ListChangeSets",
        ):
            aws.operations[operation] = getattr(self, f"_{operation}")

    def there(self, name: str, status: str, **more: Any) -> FakeStack:
        """A stack that is there already."""
        self._made += 1
        identity = f"arn:aws:cloudformation:eu-central-1:123456789012:stack/{name}/{self._made:04}"
        stack = FakeStack(name, identity, status, **more)
        self.stacks[identity] = stack
        return stack

    def found(self, name: str) -> FakeStack | None:
        """By its id, or by the name of one that is not deleted."""
        if name in self.stacks:
            return self.stacks[name]
        named = [one for one in self.stacks.values() if one.name == name and one.status != "DELETE_COMPLETE"]
        return named[-1] if named else None

    def happens(self, stack: FakeStack, events: Iterable[str]) -> None:
        """Note the events, as AWS keeps them."""
        for told in events:
            resource, status, *reason = told.split(" ", 2)
            number = len(stack.events) + 1
            itself = resource == stack.name
            event: dict[str, Any] = {
                "EventId": f"{stack.name}-{number}",
                "StackId": stack.id,
                "StackName": stack.name,
                "LogicalResourceId": resource,
                "PhysicalResourceId": stack.id if itself else f"{resource}-1",
                "ResourceType": "AWS::CloudFormation::Stack" if itself else "AWS::ECS::Service",
                "ResourceStatus": status,
                "Timestamp": (BEGAN + timedelta(seconds=number)).isoformat(),
            }
            if reason:
                event["ResourceStatusReason"] = reason[0]
            stack.events.append(event)

    # -- what is asked

    def _DescribeStacks(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        if stack is None:
            return _absent(asked["StackName"])
        if stack.acts:
            act = stack.acts[0]
            stack.status = act.status
            new = [told for told in act.events if told not in stack.played]
            self.happens(stack, new)
            stack.played.update(new)
            if act.until is None or act.until.is_set():
                stack.acts.pop(0)
        return {
            "Stacks": [
                {
                    "StackName": stack.name,
                    "StackId": stack.id,
                    "StackStatus": stack.status,
                    "CreationTime": BEGAN.isoformat(),
                    "EnableTerminationProtection": stack.protected,
                    "Parameters": [
                        {"ParameterKey": key, "ParameterValue": value}
                        for key, value in stack.parameters.items()
                    ],
                    "Outputs": [
                        {"OutputKey": key, "OutputValue": value} for key, value in stack.outputs.items()
                    ],
                }
            ]
        }

    def _DescribeStackEvents(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        if stack is None:
            return _absent(asked["StackName"])
        return self._paged("StackEvents", stack.events[::-1], asked)

    def _paged(self, key: str, everything: list[Any], asked: Mapping[str, Any]) -> Answer:
        start = int(asked.get("NextToken", "0"))
        end = start + self._page
        more = {"NextToken": str(end)} if end < len(everything) else {}
        return {key: everything[start:end], **more}

    def _CreateStack(self, asked: Mapping[str, Any]) -> Answer:
        name = asked["StackName"]
        if self.found(name) is not None:
            return Failure("AlreadyExistsException", message=f"Stack [{name}] already exists")
        stack = self.there(name, "CREATE_IN_PROGRESS", parameters=_parameters(asked, {}))
        self._begin(stack, "CREATE", self.creating.get(name))
        return {"StackId": stack.id}

    def _UpdateStack(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        assert stack is not None
        acts = self.updating.get(stack.name)
        if acts is None:
            return Failure("ValidationError", message="No updates are to be performed.")
        stack.parameters = _parameters(asked, stack.parameters)
        self._begin(stack, "UPDATE", acts)
        return {"StackId": stack.id}

    def _DeleteStack(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        if stack is not None and stack.protected:
            return Failure("ValidationError", message="TerminationProtection is enabled")
        if stack is not None and stack.status != "DELETE_COMPLETE":
            self._begin(stack, "DELETE", self.deleting.pop(stack.name, None))
        return {}

    def _begin(self, stack: FakeStack, verb: str, acts: list[Act] | None) -> None:
        stack.status = f"{verb}_IN_PROGRESS"
        stack.played.clear()
        self.happens(stack, [f"{stack.name} {verb}_IN_PROGRESS User Initiated"])
        stack.acts = list(acts) if acts is not None else quickly(verb)
        if verb != "DELETE":
            stack.outputs = self.outputs.get(stack.name, {})

    def _GetTemplate(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        return {"TemplateBody": stack.template} if stack is not None else _absent(asked["StackName"])

    # -- change sets

    def _CreateChangeSet(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        if stack is None:
            stack = self.there(asked["StackName"], "REVIEW_IN_PROGRESS")
        elif asked["ChangeSetType"] == "CREATE" and stack.status != "REVIEW_IN_PROGRESS":
            return Failure("ValidationError", message=f"Stack [{stack.name}] already exists")
        if asked["ChangeSetName"] in stack.change_sets:
            return Failure("AlreadyExistsException", message="ChangeSet already exists")
        stack.change_sets.append(asked["ChangeSetName"])
        self._looks[asked["ChangeSetName"]] = 0
        return {"Id": f"arn:changeSet/{asked['ChangeSetName']}", "StackId": stack.id}

    def _DescribeChangeSet(self, asked: Mapping[str, Any]) -> Answer:
        name = asked["ChangeSetName"].rpartition("/")[2]
        look = self._looks[name]
        self._looks[name] += 1
        status = self.change_set_states[min(look, len(self.change_set_states) - 1)]
        paged = self._paged("Changes", list(self.changes), asked)
        assert not isinstance(paged, Failure)
        (stack,) = [one for one in self.stacks.values() if name in one.change_sets]
        identity = {"ChangeSetId": f"arn:changeSet/{name}", "StackId": stack.id}
        return {**identity, "Status": status, "StatusReason": self.change_set_reason, **paged}

    def _DeleteChangeSet(self, asked: Mapping[str, Any]) -> Answer:
        name = asked["ChangeSetName"].rpartition("/")[2]
        for stack in self.stacks.values():
            if name in stack.change_sets:
                stack.change_sets.remove(name)
        return {}

    def _ListChangeSets(self, asked: Mapping[str, Any]) -> Answer:
        stack = self.found(asked["StackName"])
        assert stack is not None
        return self._paged("Summaries", [{"ChangeSetName": one} for one in stack.change_sets], asked)


def _absent(name: str) -> Failure:
    return Failure("ValidationError", message=f"Stack with id {name} does not exist")


def _parameters(asked: Mapping[str, Any], had: Mapping[str, str]) -> dict[str, str]:
    """The values of a form's parameters."""
    found: dict[str, str] = {}
    for key, name in asked.items():
        if key.startswith("Parameters.member.") and key.endswith(".ParameterKey"):
            place = key.removesuffix(".ParameterKey")
            kept = asked.get(f"{place}.UsePreviousValue") == "true"
            found[name] = had[name] if kept else asked.get(f"{place}.ParameterValue", "")
    return found
