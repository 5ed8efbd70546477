"""Stacks at CloudFormation: what AWS is asked for, and its answers as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from infra.aws import Aws
from infra.errors import Absent, Refused, Unchanged
from infra.parameters import Sent
from infra.stack import Stack, StackEvent
from infra.template import Template
from infra.words import safe

SERVICE = "cloudformation"


class Stacks:
    """The stacks of one account in one region."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws

    def stack(self, name: str) -> Stack | None:
        """The stack of that name or id; None where there is none. A deleted one is found only by its id."""
        try:
            answer = self._aws.call(SERVICE, "describe_stacks", StackName=name)
        except Absent:
            return None
        return next((_stack(one) for one in answer.get("Stacks") or ()), None)

    def events(self, name: str) -> Iterator[StackEvent]:
        """From the newest on, for as long as they are asked for."""
        pages = self._aws.pages(SERVICE, "describe_stack_events", "StackEvents", "NextToken", StackName=name)
        yield from map(_event, pages)

    def template_text(self, name: str) -> str | None:
        """The template that the stack has; None where there is none to see."""
        try:
            body = self._aws.call(SERVICE, "get_template", StackName=name).get("TemplateBody")
        except Absent:
            return None
        return body if isinstance(body, str) else None

    def create(self, name: str, template: Template, parameters: Iterable[Sent], token: str) -> str:
        """Begin, and return the stack's id. `token` is what AWS tells a repeated call by."""
        answer = self._aws.call(
            SERVICE,
            "create_stack",
            StackName=name,
            TemplateBody=template.text,
            Parameters=_parameters(parameters),
            Capabilities=list(template.capabilities),
            ClientRequestToken=token,
            OnFailure="ROLLBACK",
        )
        return str(answer["StackId"])

    def update(self, name: str, template: Template, parameters: Iterable[Sent], token: str) -> bool:
        """Begin, and return True; False where nothing would change."""
        try:
            self._aws.call(
                SERVICE,
                "update_stack",
                StackName=name,
                TemplateBody=template.text,
                Parameters=_parameters(parameters),
                Capabilities=list(template.capabilities),
                ClientRequestToken=token,
            )
        except Unchanged:
            return False
        return True

    def delete(self, stack_id: str) -> None:
        """Begin. Nothing to delete is no error."""
        self._aws.call(SERVICE, "delete_stack", StackName=stack_id)

    # -- change sets

    def propose(
        self,
        name: str,
        template: Template,
        parameters: Iterable[Sent],
        change_set: str,
        kind: Literal["CREATE", "UPDATE"],
    ) -> tuple[str, str]:
        """Begin to make a change set: its id and the stack's. Raises Unchanged."""
        try:
            answer = self._aws.call(
                SERVICE,
                "create_change_set",
                StackName=name,
                TemplateBody=template.text,
                Parameters=_parameters(parameters),
                Capabilities=list(template.capabilities),
                ChangeSetName=change_set,
                ChangeSetType=kind,
            )
        except Refused as refused:
            if refused.code != "AlreadyExistsException":
                raise
            # Ours: the answer to an attempt before this one was lost.
            answer = self._aws.call(SERVICE, "describe_change_set", StackName=name, ChangeSetName=change_set)
            return str(answer["ChangeSetId"]), str(answer["StackId"])
        return str(answer["Id"]), str(answer["StackId"])

    def proposal(self, change_set_id: str) -> tuple[str, str]:
        """The state of a change set, and AWS's words on it."""
        answer = self._aws.call(SERVICE, "describe_change_set", ChangeSetName=change_set_id)
        return str(answer.get("Status")), safe(str(answer.get("StatusReason") or ""))

    def proposed(self, change_set_id: str) -> Sequence[Mapping[str, Any]]:
        """All changes of a change set that is complete."""
        pages = self._aws.pages(
            SERVICE, "describe_change_set", "Changes", "NextToken", ChangeSetName=change_set_id
        )
        return list(pages)

    def proposals(self, name: str) -> list[str]:
        """The names of the stack's change sets."""
        pages = self._aws.pages(SERVICE, "list_change_sets", "Summaries", "NextToken", StackName=name)
        return [str(one.get("ChangeSetName")) for one in pages]

    def withdraw(self, change_set_id: str) -> None:
        """The change set is gone."""
        try:
            self._aws.call(SERVICE, "delete_change_set", ChangeSetName=change_set_id)
        except Absent:
            return


def _parameters(parameters: Iterable[Sent]) -> list[dict[str, object]]:
    return [
        {"ParameterKey": one.name, "UsePreviousValue": True}
        if one.value is None
        else {"ParameterKey": one.name, "ParameterValue": one.value}
        for one in parameters
    ]


def _stack(one: Mapping[str, Any]) -> Stack:
    return Stack(
        str(one["StackName"]),
        str(one["StackId"]),
        str(one["StackStatus"]),
        safe(str(one.get("StackStatusReason") or "")),
        {str(p["ParameterKey"]): str(p.get("ParameterValue", "")) for p in one.get("Parameters") or ()},
        {str(o["OutputKey"]): str(o.get("OutputValue", "")) for o in one.get("Outputs") or ()},
        bool(one.get("EnableTerminationProtection")),
    )


def _event(one: Mapping[str, Any]) -> StackEvent:
    return StackEvent(
        str(one["EventId"]),
        one["Timestamp"],
        safe(str(one.get("LogicalResourceId"))),
        safe(str(one.get("ResourceType"))),
        str(one.get("ResourceStatus")),
        str(one.get("ResourceStatusReason") or ""),
        one.get("PhysicalResourceId") == one.get("StackId"),
    )
