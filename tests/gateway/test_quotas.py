"""How many sessions there may be, of all clients and of one."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

from gateway.quotas import ClientFull, GatewayFull, Quotas


def enter(quotas: Quotas, key: str | None, stack: ExitStack) -> ClientFull | GatewayFull | None:
    slot = quotas.client(key)
    if not isinstance(slot, AbstractContextManager):
        return slot
    stack.enter_context(slot)
    return None


def test_a_client_has_as_many_sessions_as_it_may_and_others_have_theirs() -> None:
    quotas = Quotas(max_sessions=None, max_sessions_per_client=2)
    with ExitStack() as stack:
        assert [enter(quotas, "a", stack) for _ in range(3)] == [None, None, ClientFull()]
        assert enter(quotas, "b", stack) is None


def test_the_gateway_has_as_many_sessions_as_it_may() -> None:
    quotas = Quotas(max_sessions=2, max_sessions_per_client=None)
    with ExitStack() as stack:
        assert [enter(quotas, key, stack) for key in ("a", None, "b")] == [None, None, GatewayFull()]
        # Told what would hold for any client, so that nobody looks for the fault in its own.
        assert enter(Quotas(max_sessions=0, max_sessions_per_client=0), "a", stack) == GatewayFull()


def test_the_number_of_sessions_may_change_and_ends_none() -> None:
    quotas = Quotas(max_sessions=2, max_sessions_per_client=None)
    with ExitStack() as stack:
        assert [enter(quotas, key, stack) for key in "ab"] == [None, None]
        quotas.max_sessions = 1
        assert enter(quotas, "c", stack) == GatewayFull()
        assert quotas.clients == 2
        quotas.max_sessions = None
        assert enter(quotas, "c", stack) is None


def test_a_session_counts_to_its_end_however_it_ends() -> None:
    quotas = Quotas(max_sessions=1, max_sessions_per_client=1)
    with ExitStack() as stack:
        assert enter(quotas, "a", stack) is None
    stack = ExitStack()
    assert enter(quotas, "a", stack) is None
    defect = ValueError("defect")
    assert stack.__exit__(ValueError, defect, None) is False
    with ExitStack() as stack:
        assert enter(quotas, "b", stack) is None


def test_without_limits_everybody_comes_in() -> None:
    quotas = Quotas(max_sessions=None, max_sessions_per_client=None)
    with ExitStack() as stack:
        assert {enter(quotas, "a", stack) for _ in range(50)} == {None}


def test_clients_without_a_key_have_no_limit_of_their_own() -> None:
    quotas = Quotas(max_sessions=None, max_sessions_per_client=1)
    with ExitStack() as stack:
        assert [enter(quotas, None, stack) for _ in range(3)] == [None] * 3


def test_a_client_that_was_looked_up_or_has_left_is_not_remembered() -> None:
    quotas = Quotas(max_sessions=None, max_sessions_per_client=1)
    with ExitStack() as stack:
        for key in ("a", "b"):
            enter(quotas, key, stack)
        quotas.client("c")
        assert quotas.clients == 2
    assert quotas.clients == 0
