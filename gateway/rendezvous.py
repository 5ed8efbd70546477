"""PURE. Rendezvous hashing: which replica a key belongs to, the same in every process and after every
restart.

Each replica gets a score for the key, and the highest one has it; the others follow in the order of their
scores. A replica that goes moves only its own keys, each to the next in its rank, and one that joins takes
only its share.

**The hash.** BLAKE2b (RFC 7693) with 8 bytes of digest and no key, over

    the replica's URL, UTF-8, in its normal form (`normalised_url`) | one byte 0x00 | the key, UTF-8

The digest is read as a big-endian number. No URL holds a zero byte, so two pairs never make one message.
Neither the replica's name nor its place in the list counts: both may change under a replica that stays.

**The score** is `-weight / ln(h)`, where h is the upper 52 bits of the digest plus one half, over 2 to the
52nd, and so above 0 and below 1 (J. Schindelhauer and G. Schomaker, "Weighted distributed hash tables",
2005). Each replica has a share of the keys as its weight is of all weights, and a changed weight moves keys
only to or from that replica. With weight 0 the score is 0: such a replica comes after all others. Equal
scores are ordered by digest, then by URL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from gateway.replicas.model import Candidate
from gateway.replicas.urls import normalised_url

_STEPS = 2**52


def digest(url: str, key: str) -> int:
    """The 64-bit hash of a replica and a key."""
    message = b"\x00".join((normalised_url(url).encode(), key.encode("utf-8", "surrogatepass")))
    return int.from_bytes(blake2b(message, digest_size=8).digest(), "big")


def score(hashed: int, weight: float) -> float:
    """What a replica of this weight gets for a digest; 0 or more."""
    return -weight / math.log(((hashed >> 12) + 0.5) / _STEPS)


def ranking(key: str, candidates: Iterable[Candidate]) -> Sequence[Candidate]:
    """`candidates` in the order in which they are to serve `key`, whatever their health, load and order.

    A slow start plays no part: two gateways that saw a replica come back at different times still agree.
    """

    def rank(candidate: Candidate) -> tuple[float, int, str]:
        hashed = digest(candidate.url, key)
        return -score(hashed, candidate.weight), -hashed, candidate.url

    return sorted(candidates, key=rank)
