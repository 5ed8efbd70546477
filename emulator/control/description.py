"""The API's own description (OpenAPI 3.1), where the routes alone do not say enough: bodies, problems, and
the fields of every fault, made from the frozen values themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import (
    Example,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    Reference,
    RequestBody,
    Schema,
    Tag,
)

from emulator.control import answers, bodies
from emulator.described import field_docs, in_json, summary
from emulator.events import Event
from emulator.faults import CATALOGUE

PLACE = "#/components/schemas/{name}"

ANSWERS: tuple[type, ...] = (
    answers.ReplicaStatus,
    answers.ScalingStatus,
    answers.OpenSession,
    answers.FarmStatus,
    answers.EventPage,
    answers.FieldDescription,
    answers.FaultDescription,
    answers.Problem,
    Event,
)
BODIES: tuple[type, ...] = (bodies.KillBody, bodies.RestartBody, bodies.PauseBody, bodies.NewReplica)

PROBLEMS: Mapping[int, str] = {
    400: "The body or a parameter is not as it should be.",
    403: "The request names another host than this machine, or comes from a web page that is not its own.",
    404: "There is no such replica or fault, or it is listed nowhere; the answer names what there is.",
    409: "The replica or the farm is in no state for that; the answer says what has to come first.",
    429: "Too many requests wait for events already.",
}

TEXT = """\
Breaks the emulator's replicas, and tells what they saw. JSON both ways; a body may be left out for the \
defaults. Times are in seconds. There is no password: requests are taken from this machine only, under the \
names 127.0.0.1, localhost and [::1], and of web pages from its own alone."""

TAGS = (
    Tag("replicas", "What there is, and its life: kill, restart, pause."),
    Tag("faults", "What is wrong with a replica that lives; armed, changed and lifted while sessions run."),
    Tag("events", "What each replica saw and did, numbered over all of them."),
    Tag("farm", "All replicas at once."),
)

CONFIG = OpenAPIConfig(
    title="Emulator control",
    version="1",
    description=TEXT,
    tags=list(TAGS),
    use_handler_docstrings=True,
)


def operation(
    *,
    body: Sequence[type] = (),
    examples: Mapping[str, Example] | None = None,
    problems: Sequence[int] = (),
) -> type[Operation]:
    """How a route is described: a body of one of these kinds, with examples, and what may go wrong."""
    content = OpenAPIMediaType(
        schema=_place(body[0]) if len(body) == 1 else Schema(any_of=[_place(kind) for kind in body]),
        examples=dict(examples or {}),
    )

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            if body:
                self.request_body = RequestBody(content={"application/json": content}, required=False)
            answered = {status: told for status, told in (self.responses or {}).items() if status < "400"}
            self.responses = answered | {str(status): _problem(status) for status in (*problems, 403)}

    return Described


def faults_as_examples() -> dict[str, Example]:
    """For each fault a body that arms it, by its name: its own fields with their defaults."""
    return {
        name: Example(
            summary=name,
            description=summary(kind),
            value={
                entry.name: entry.default
                for entry in msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
                if entry.name in kind.__annotations__ and entry.default is not msgspec.NODEFAULT
            },
        )
        for name, kind in CATALOGUE.items()
    }


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every fault, body and answer, by class name, with what is said of their fields."""
    kinds = {kind.__name__: kind for kind in (*CATALOGUE.values(), *ANSWERS, *BODIES)}
    _, found = msgspec.json.schema_components(list(kinds.values()), ref_template=PLACE)
    for name, schema in found.items():
        kind = kinds[name]
        schema["description"] = summary(kind)
        docs = field_docs(kind)
        for field, said in schema.get("properties", {}).items():
            if field in docs:
                said["description"] = in_json(docs[field])
        if kind in CATALOGUE.values() or kind in BODIES:
            schema["additionalProperties"] = False
    return found


def complete(app: Litestar) -> None:
    """The app's description has the schemas of this file in place of what the routes alone would give. No-op
    when it has them."""
    components = app.openapi_schema.components
    assert components is not None, "the routes' answers have schemas"
    if not any(isinstance(schema, _Ready) for schema in (components.schemas or {}).values()):
        components.schemas = {name: _Ready(document=schema) for name, schema in schemas().items()}


@dataclass
class _Ready(Schema):
    """A schema that is complete as it stands."""

    document: dict[str, Any] | None = None

    def to_schema(self) -> dict[str, Any]:
        return self.document or {}


def _place(kind: type) -> Reference:
    return Reference(ref=PLACE.format(name=kind.__name__))


def _problem(status: int) -> OpenAPIResponse:
    content = OpenAPIMediaType(schema=_place(answers.Problem))
    return OpenAPIResponse(description=PROBLEMS[status], content={"application/json": content})
