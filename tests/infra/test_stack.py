"""What a stack's state asks for, and what of its events is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import boto3
import pytest

from infra.stack import (
    Await,
    Create,
    RemoveFirst,
    Review,
    Stack,
    StackEvent,
    Step,
    Stuck,
    Update,
    event_line,
    failure_lines,
    first_failure,
    in_progress,
    last_operation,
    next_step,
    unfinished,
)

AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
STEPS: dict[str, type[Step]] = {
    "CREATE_IN_PROGRESS": Await,
    "CREATE_FAILED": RemoveFirst,
    "CREATE_COMPLETE": Update,
    "ROLLBACK_IN_PROGRESS": Await,
    "ROLLBACK_FAILED": RemoveFirst,
    "ROLLBACK_COMPLETE": RemoveFirst,
    "DELETE_IN_PROGRESS": Await,
    "DELETE_FAILED": RemoveFirst,
    "DELETE_COMPLETE": Create,
    "UPDATE_IN_PROGRESS": Await,
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": Await,
    "UPDATE_COMPLETE": Update,
    "UPDATE_FAILED": Update,
    "UPDATE_ROLLBACK_IN_PROGRESS": Await,
    "UPDATE_ROLLBACK_FAILED": Stuck,
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": Await,
    "UPDATE_ROLLBACK_COMPLETE": Update,
    "REVIEW_IN_PROGRESS": Review,
    "IMPORT_IN_PROGRESS": Await,
    "IMPORT_COMPLETE": Update,
    "IMPORT_ROLLBACK_IN_PROGRESS": Await,
    "IMPORT_ROLLBACK_FAILED": Stuck,
    "IMPORT_ROLLBACK_COMPLETE": Update,
}


@pytest.mark.parametrize("status", STEPS)
def test_every_state_has_its_next_step(status: str) -> None:
    assert type(next_step(Stack("s", "id", status))) is STEPS[status]


def test_no_state_of_awss_is_left_out() -> None:
    client = boto3.client("cloudformation", region_name="eu-central-1")
    shape: Any = client.meta.service_model.shape_for("StackStatus")
    assert set(STEPS) == set(shape.enum)


def test_where_there_is_none_one_is_created() -> None:
    assert next_step(None) == Create()


def test_a_state_that_nobody_knows_is_left_to_a_person() -> None:
    assert isinstance(next_step(Stack("s", "id", "NEW_STATE")), Stuck)


def test_every_step_is_reached() -> None:
    assert set(STEPS.values()) == set(get_args(Step))


def test_a_change_set_alone_is_no_work() -> None:
    assert not in_progress("REVIEW_IN_PROGRESS")
    assert in_progress("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")


def event(resource: str, status: str, reason: str = "", *, whole: bool = False) -> StackEvent:
    return StackEvent(f"{resource}{status}", AT, resource, "AWS::X", status, reason, whole)


CANCELLED = event("A", "CREATE_FAILED", "Resource creation cancelled")


def test_only_the_last_operation_counts() -> None:
    happened = [
        event("s", "CREATE_IN_PROGRESS", whole=True),
        event("A", "CREATE_FAILED", "an old story"),
        event("s", "CREATE_COMPLETE", whole=True),
        event("s", "UPDATE_IN_PROGRESS", whole=True),
        event("A", "UPDATE_IN_PROGRESS"),
        event("s", "UPDATE_ROLLBACK_IN_PROGRESS", whole=True),
    ]
    assert last_operation(happened[::-1]) == happened[3:]


def test_the_events_before_are_not_even_asked_for() -> None:
    def pages() -> object:
        yield event("s", "UPDATE_IN_PROGRESS", whole=True)
        raise AssertionError("another page was asked for")

    assert len(last_operation(pages())) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("happened", "first"),
    [
        ([], None),
        ([event("A", "CREATE_COMPLETE")], None),
        ([CANCELLED, event("B", "CREATE_FAILED", "no")], "B"),
        ([event("s", "UPDATE_FAILED", "all", whole=True), event("B", "UPDATE_FAILED", "no")], "B"),
        ([CANCELLED], "A"),
    ],
)
def test_the_first_failure_for_a_reason_of_its_own(happened: list[StackEvent], first: str | None) -> None:
    found = first_failure(happened)
    assert (found.resource if found is not None else None) == first


def test_what_aws_is_at() -> None:
    happened = [
        event("s", "UPDATE_IN_PROGRESS", whole=True),
        event("A", "UPDATE_IN_PROGRESS"),
        event("B", "UPDATE_IN_PROGRESS"),
        event("A", "UPDATE_COMPLETE"),
    ]
    assert unfinished(happened) == ["B"]


def test_a_failure_without_events_has_the_stacks_own_reason() -> None:
    assert failure_lines("s", "ROLLBACK_FAILED", [], "because") == ("s is ROLLBACK_FAILED", "because")


def test_a_line_of_progress() -> None:
    assert event_line(event("A", "CREATE_COMPLETE", "fine")) == "  12:00:05  create complete       A (AWS::X)"
    assert event_line(event("A", "CREATE_FAILED", "no\x1b[2J")) == (
        "  12:00:05  create failed         A (AWS::X): no\\x1b[2J"
    )
    assert event_line(event("s", "CREATE_COMPLETE", whole=True)).endswith("  the stack itself")
