"""PURE. The driven sessions of a scenario: who connects when, says what, reads how and leaves how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from emulator.faults.ending import NEVER_SENT
from emulator.protocol.messages import PromptSource
from emulator.scenario.values import URL_PATH, URL_QUERY, Duration, Headers, Name, Part, Subprotocol, but
from emulator.scenario.when import AnyWhen

MOST_SESSIONS = 5000
MOST_LINES = 10_000
MOST_REASON_BYTES = 123
"""Of a close frame's reason."""


class Prompt(Part):
    """Asks for a segment, with fields of `segment_prompt_source`."""

    prompt: StrictStr
    """The text."""
    negative_prompt: StrictStr | None = None
    """What the segment should not be."""
    source: PromptSource | None = None
    """Where the prompt comes from."""
    seed: StrictInt | None = None
    """Of the segment."""
    num_inference_steps: Annotated[StrictInt, Field(ge=1)] | None = None
    """Messages `step_complete` of the segment."""
    guidance_scale: float | None = None
    """How closely the prompt is followed."""


class Say(Part):
    """A message as it stands: a mapping is sent as JSON, text as it is. Nothing is waited for."""

    send: Annotated[
        Annotated[StrictStr, Tag("(text)")] | Annotated[dict[str, Any], Tag("(mapping)")],
        Discriminator(lambda written: "(text)" if isinstance(written, str) else "(mapping)"),
    ]
    """The message."""


class Binary(Part):
    """A binary message of so many zero bytes. Nothing is waited for."""

    binary_bytes: Annotated[StrictInt, Field(ge=0, le=256 * 1024 * 1024)]
    """Its size."""


class Wait(Part):
    """A pause in the script."""

    wait: Duration
    """How long."""


Line = Prompt | Say | Binary | Wait
"""One line of a session's script."""
_KEYS: Mapping[str, str] = {"prompt": "Prompt", "send": "Say", "binary_bytes": "Binary", "wait": "Wait"}


def _line_from(written: object) -> object:
    return {"prompt": written} if isinstance(written, str) else written


def _kind_of(written: object) -> str | None:
    if isinstance(written, Mapping):
        return next((f"({kind})" for key, kind in _KEYS.items() if key in written), None)
    return f"({type(written).__name__})" if isinstance(written, Part) else None


_AnyLine = Annotated[
    Annotated[Prompt, Tag("(Prompt)")]
    | Annotated[Say, Tag("(Say)")]
    | Annotated[Binary, Tag("(Binary)")]
    | Annotated[Wait, Tag("(Wait)")],
    Discriminator(
        _kind_of,
        custom_error_type="line",
        custom_error_message="should be text, or a mapping with prompt, send, binary_bytes or wait",
    ),
    BeforeValidator(_line_from, json_schema_input_type=StrictStr | Prompt | Say | Binary | Wait),
]


def _lines_from(written: object) -> object:
    if isinstance(written, int) and not isinstance(written, bool) and 0 <= written <= MOST_LINES:
        return tuple(f"prompt {number}" for number in range(1, written + 1))
    if isinstance(written, list | tuple):
        return tuple(written)
    raise ValueError(f"should be a list of prompts, or a number of them from 0 to {MOST_LINES}{but(written)}")


Lines = Annotated[
    tuple[_AnyLine, ...],
    Field(max_length=MOST_LINES),
    BeforeValidator(
        _lines_from, json_schema_input_type=Annotated[int, Field(ge=0, le=MOST_LINES)] | list[_AnyLine]
    ),
]


class Read(Part):
    """How a client takes what is sent to it."""

    how: Literal["normal", "slow", "stopped"] = "normal"
    """`slow` takes so many bytes a second; `stopped` takes nothing."""
    bytes_per_second: Annotated[StrictInt, Field(ge=1)] = 65536
    """Of a slow one."""
    after: Duration = 0.0
    """It reads normally for this long after it was accepted."""
    lasting: Annotated[Duration, Field(gt=0)] | None = Field(default=None, validation_alias="for")
    """Then it is so for this long; left out is until its end."""


class Reconnect(Part):
    """What a client does when its session was refused, lost or closed before its script was through: it
    connects again and asks for what is missing. A close with 1000 or one that says that no retry helps
    (an `error` with `retryable: false`) is taken for the end."""

    times: Annotated[StrictInt, Field(ge=0, le=1000)] = 3
    """How often at most."""
    pause: Duration = 0.5
    """Before each attempt."""
    insist: StrictBool = False
    """Also when it was told that no retry helps, as a person does who presses the button once more."""


def _read_from(written: object) -> object:
    return {"how": written} if isinstance(written, str) else written


def _sendable(code: int) -> int:
    if code in NEVER_SENT or 1015 < code < 3000:
        raise ValueError(f"should be a code that may be sent: 1000, 1001, 1011 or 3000 to 4999, not {code}")
    return code


def _fits(reason: str) -> str:
    if len(reason.encode(errors="surrogatepass")) > MOST_REASON_BYTES:
        raise ValueError(f"should have at most {MOST_REASON_BYTES} bytes in UTF-8")
    return reason


class Sessions(Part):
    """One driven session, or several that are alike."""

    name: Name = "s"
    """Of the session; with `count` the sessions are called by it and a number from 1: s1, s2."""
    count: Annotated[StrictInt, Field(ge=1, le=MOST_SESSIONS)] | None = None
    """How many; left out is one, whose name has no number."""
    at: Duration | None = None
    """It opens so long after the beginning at the earliest."""
    when: AnyWhen | None = None
    """It opens when this happens."""
    together: StrictBool = False
    """They open without waiting for one another. Otherwise each opens only when the one before has been
    refused, or closed, or has heard its first message."""
    path: Annotated[StrictStr, Field(pattern=URL_PATH)] = "/v1/stream"
    """Of the upgrade."""
    query: Annotated[StrictStr, Field(pattern=URL_QUERY)] = ""
    """Of the upgrade, without the question mark."""
    headers: Headers = Field(default_factory=dict)
    """Of the upgrade, beside those of a WebSocket client."""
    subprotocols: tuple[Subprotocol, ...] = ()
    """That it offers, best first."""
    init: dict[str, Any] | None = Field(default_factory=dict)
    """Fields of its `session_init_v2`, such as `{client_id: x}`; null sends none."""
    prompts: Lines = Field(default=(Prompt(prompt="prompt 1"),), json_schema_extra={"default": 1})
    """What it asks for, one after the other: texts, a number of them, or mappings with `prompt` and other
    fields, `send` (a message), `binary_bytes` or `wait`. A prompt is sent when the segment of the one before
    is complete."""
    ahead: Annotated[StrictInt, Field(ge=0, le=1000)] = 0
    """Prompts that it sends before their turn."""
    pause: Duration = 0.0
    """From a complete segment to the next prompt."""
    read: Annotated[
        Read,
        BeforeValidator(_read_from, json_schema_input_type=Literal["normal", "slow", "stopped"] | Read),
    ] = Read()
    """How it reads: `normal`, `slow`, `stopped`, or a mapping."""
    reconnect: (
        Annotated[
            Reconnect,
            BeforeValidator(
                lambda written: {"times": written} if isinstance(written, int) else written,
                json_schema_input_type=Annotated[int, Field(ge=0, le=1000)] | Reconnect,
            ),
        ]
        | None
    ) = None
    """What it does when its session breaks; left out is nothing."""
    then: Literal["close", "leave", "stay"] = "close"
    """When its script is through: it closes in order, it cuts the connection, or it stays until all others
    are through (and closes then)."""
    code: Annotated[StrictInt, AfterValidator(_sendable), Field(ge=1000, le=4999)] = 1000
    """Of its own close."""
    reason: Annotated[StrictStr, Field(max_length=MOST_REASON_BYTES), AfterValidator(_fits)] = ""
    """Of its own close."""

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.at is not None and self.when is not None:
            raise ValueError("has both at and when; a session opens by one of them (when may have after)")
        return self

    @property
    def names(self) -> list[str]:
        """Of the sessions, in the order in which they open."""
        if self.count is None:
            return [self.name]
        return [f"{self.name}{number}" for number in range(1, self.count + 1)]

    def init_message(self) -> dict[str, Any] | None:
        """What it says first, as JSON values; None for nothing."""
        return None if self.init is None else {"type": "session_init_v2", **self.init}
