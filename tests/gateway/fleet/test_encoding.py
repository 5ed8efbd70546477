from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FleetRefused
from gateway.fleet.encoding import VERSION, decode_entry, encode_payload, encode_report, moment
from gateway.fleet.member import FleetMember, MemberState

HEAD = b"1700000000123456\tc0ffee\t7\t"
text = st.text(st.characters(blacklist_categories=["Cs"]))
numbers = st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)


def read(payload: bytes) -> FleetMember:
    member = decode_entry(b"a", HEAD + payload)
    assert member is not None
    return member


@given(st.sampled_from(MemberState), st.dictionaries(text, numbers | text, max_size=6))
def test_a_report_is_read_back_exactly(state: MemberState, report: dict[str, int | float | str]) -> None:
    member = read(encode_payload(state, report, 100_000))
    assert member.state is state
    assert member.report == report
    assert [type(value) for value in member.report.values()] == [type(value) for value in report.values()]
    signs = [math.copysign(1, value) for value in member.report.values() if isinstance(value, float)]
    assert signs == [math.copysign(1, value) for value in report.values() if isinstance(value, float)]


def test_an_entry_stands_as_documented() -> None:
    payload = encode_payload(MemberState.SERVING, {"load": 3, "zone": "ä"}, 100)
    assert payload.decode() == '1\tserving\t{"load":3,"zone":"ä"}'
    assert VERSION == 1


def test_since_is_exact_to_the_microsecond() -> None:
    assert read(b"1\tserving\t{}").since == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert moment(1_700_000_000_123_457) - moment(1_700_000_000_123_456) == datetime.resolution


def test_the_encoding_of_a_report_is_capped_in_bytes() -> None:
    report = {"zone": "\N{WHALE}x"}  # {"zone":"....x"}: the whale takes four
    assert len(encode_report(report, 16)) == 16
    with pytest.raises(FleetRefused, match=r"at most report_max_bytes \(15\) .* not 16 bytes"):
        encode_report(report, 15)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"a": True}, "truth value"),
        ({"a": math.nan}, "finite"),
        ({"a": "\ud800"}, "UTF-8"),
        ({"a": 10**5000}, "shorter"),
    ],
)
def test_what_cannot_be_encoded_is_refused(report: dict[str, int | float | str], said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        encode_report(report, 100_000)


@pytest.mark.parametrize(
    ("payload", "state", "report"),
    [
        pytest.param(
            b'1\tserving\t{"load":3}\tnew\t{}', "serving", {"load": 3}, id="a field behind the report"
        ),
        pytest.param(b'1\thibernating\t{"load":3}', "draining", {"load": 3}, id="a state of a later version"),
        pytest.param(
            b'1\tserving\t{"a":[1],"b":true,"c":2}', "serving", {"c": 2}, id="values of a later version"
        ),
        pytest.param(b'2\tserving\t{"load":3}', "serving", {}, id="a later version"),
        pytest.param(b"2\tstarting", "starting", {}, id="a later version without a report"),
        pytest.param(b"1\tserving\t{", "serving", {}, id="no JSON"),
        pytest.param(b"1\tserving\t[1]", "serving", {}, id="no object"),
        pytest.param(b'1\tserving\t{"a":NaN,"b":1}', "serving", {}, id="not a number"),
        pytest.param(b'1\tserving\t{"a":1e999,"b":1}', "serving", {"b": 1}, id="beyond any float"),
        pytest.param(b'1\tserving\t{"a":' + b"1" * 5000 + b"}", "serving", {}, id="too long a number"),
        pytest.param(b"1\tserving\t" + b"[" * 100_000, "serving", {}, id="too deep"),
        pytest.param(b"1\tserving\t\xff", "serving", {}, id="not UTF-8"),
        pytest.param(b"\xff\t\xff\t{}", "draining", {}, id="nothing that we know"),
        pytest.param(b"", "draining", {}, id="nothing at all"),
    ],
)
def test_an_entry_of_another_version_is_a_member_all_the_same(
    payload: bytes, state: str, report: dict[str, object]
) -> None:
    member = read(payload)
    assert (member.id, member.state, member.report) == ("a", state, report)


@pytest.mark.parametrize(
    ("member_id", "entry"),
    [
        (b"a", b""),
        (b"a", b"hello"),
        (b"a", b"soon\tc0ffee\t7\t1\tserving\t{}"),
        (b"a", b"9" * 30 + b"\tc0ffee\t7\t1\tserving\t{}"),
        (b"a", b"9" * 5000 + b"\tc0ffee\t7\t1\tserving\t{}"),
        (b"\xff", HEAD + b"1\tserving\t{}"),
    ],
)
def test_what_is_no_entry_is_no_member(member_id: bytes, entry: bytes) -> None:
    assert decode_entry(member_id, entry) is None


def test_the_report_is_json_that_any_language_reads() -> None:
    assert json.loads(encode_report({"a": 1, "b": 1.0, "c": "x"}, 100)) == {"a": 1, "b": 1.0, "c": "x"}
