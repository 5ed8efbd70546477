from __future__ import annotations

import pytest

from emulator.media.boxes import avc_codec, boxes, parts


def box(kind: bytes, content: bytes = b"") -> bytes:
    return (8 + len(content)).to_bytes(4) + kind + content


def test_a_file_falls_into_its_initialisation_part_and_its_fragments() -> None:
    head = box(b"ftyp", b"isom") + box(b"moov", b"tracks")
    one, two = (box(b"moof", name) + box(b"mdat", name * 3) for name in (b"1", b"2"))
    assert parts(head + one + two) == (head, (one, two))


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x00\x07moov", b"\x00\x00\x00\xffmoov"])
def test_what_is_no_box_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no box of an MP4 file at byte 0"):
        list(boxes(data))


def test_the_codec_is_read_from_the_decoders_configuration() -> None:
    assert avc_codec(b"....avcC\x01\x42\xc0\x1e\xff") == "avc1.42C01E"
