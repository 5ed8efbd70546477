"""PURE. An MP4 file as its boxes (ISO/IEC 14496-12): its initialisation part, and its fragments."""

from __future__ import annotations

from collections.abc import Iterator

HEADER_BYTES = 8


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each box on the top level of `data`: its type, and all of its bytes. Raises ValueError for no boxes."""
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 4])
        if size < HEADER_BYTES or start + size > len(data):
            raise ValueError(f"no box of an MP4 file at byte {start}")
        yield data[start + 4 : start + 8], data[start : start + size]
        start += size


def parts(data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """The initialisation part (up to the `moov` box), and each fragment (a `moof` box with its `mdat`)."""
    init, fragments = b"", list[bytes]()
    for kind, box in boxes(data):
        if kind in (b"ftyp", b"moov"):
            init += box
        elif kind == b"moof":
            fragments.append(box)
        elif kind == b"mdat" and fragments:
            fragments[-1] += box
    return init, tuple(fragments)


def avc_codec(init: bytes) -> str:
    """The video's codec as a browser is asked for it: profile, constraints and level, from the `avcC` box."""
    start = init.index(b"avcC") + 5
    return f"avc1.{init[start : start + 3].hex().upper()}"
