"""PURE. The three scripts that are a fleet's whole life in Redis: one a call, each of them atomic.

KEYS[1] is a sorted set of ids by the microsecond at which each entry expires, KEYS[2] a hash of entries by id
(see `encoding`). `memory_store` is the same model in Python, and a property test holds the two together.

What every line stands on:

1. TIME is read once: it moves while a script of Redis 7 runs.
2. Microseconds are below 2**53 and thus exact as Lua's numbers, but `tostring` would give them an exponent:
   `%.0f` does not. Times are returned as text: Redis cuts the fraction off a number, and may overflow.
3. No shebang line: Redis 6.2 refuses one.
4. The two keys can be lost one by one (eviction, a hand at the keyboard). An entry without an expiry was
   alive at the last beat, whoever made that: it is given the fleet's ttl from now, and expires then if it is
   dead. An expiry without an entry says nothing of its member, and is dropped; the member comes back as new.
5. A server without memory left refuses a script's ZADD and HSET, but no longer once the script has removed
   something. So the first write changes nothing, and is one of those: all beats fail then, where else now
   and then one would find room, and see itself alone.
6. A clock that went back (a failover to another machine) may leave a `since` in the future: it becomes now.
"""

from __future__ import annotations

CLOCK = """local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])"""
"""Sets `now`: the server's clock in microseconds."""

_SHARED = """
local Z, H = KEYS[1], KEYS[2]
local HEAD = '^(%d+)\\t([^\\t]*)\\t(%d+)\\t'
local function whole(number) return string.format('%.0f', number) end
local function expire_keys()
    local last = redis.call('ZRANGE', Z, -1, -1, 'WITHSCORES')[2]
    if last then
        local at = whole(math.ceil((tonumber(last) + 1000000) / 1000))
        redis.call('PEXPIREAT', Z, at)
        redis.call('PEXPIREAT', H, at)
    end
end
"""

_BEAT = """
-- ARGV: id, incarnation, number, this entry's ttl and the fleet's in microseconds, payload
local id, incarnation, number, ttl, usual, payload = unpack(ARGV)
number, ttl, usual = tonumber(number), tonumber(ttl), tonumber(usual)
redis.call('ZADD', Z, 'XX', 'GT', 0, id)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', Z, '-inf', whole(now))) do
    redis.call('ZREM', Z, gone)
    redis.call('HDEL', H, gone)
end
if redis.call('ZCARD', Z) ~= redis.call('HLEN', H) then
    for _, held in ipairs(redis.call('HKEYS', H)) do
        if not redis.call('ZSCORE', Z, held) then redis.call('ZADD', Z, whole(now + usual), held) end
    end
    for _, held in ipairs(redis.call('ZRANGE', Z, 0, -1)) do
        if redis.call('HEXISTS', H, held) == 0 then redis.call('ZREM', Z, held) end
    end
end
local since, found, written = now, false, 1
local before = redis.call('HGET', H, id)
if before then
    local joined, by, count = string.match(before, HEAD)
    if joined then
        found = by
        since = math.min(tonumber(joined), now)
        if by == incarnation and tonumber(count) > number then written = 0 end
    end
end
if written == 1 then
    redis.call('ZADD', Z, whole(now + ttl), id)
    redis.call('HSET', H, id, table.concat({whole(since), incarnation, whole(number), payload}, '\\t'))
end
expire_keys()
return {whole(now), found, written, redis.call('HGETALL', H)}
"""

_VIEW = """
return {whole(now), redis.call('ZRANGEBYSCORE', Z, '-inf', whole(now)), redis.call('HGETALL', H)}
"""

_LEAVE = """
-- ARGV: id, and the incarnation whose entry it must be, if any
local id, incarnation = unpack(ARGV)
local entry = redis.call('HGET', H, id)
if not entry then return 0 end
local _, by = string.match(entry, HEAD)
if incarnation and by ~= incarnation then return 0 end
local expiry = redis.call('ZSCORE', Z, id)
redis.call('ZREM', Z, id)
redis.call('HDEL', H, id)
expire_keys()
if expiry and tonumber(expiry) <= now then return 0 end
return 1
"""

COMMANDS = (
    "EVAL",
    "EVALSHA",
    "TIME",
    "ZADD",
    "ZCARD",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZREM",
    "ZSCORE",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HSET",
    "PEXPIREAT",
)
"""All that a user of the server must be allowed to do, on keys that match `{fleet:*`."""


def beat_script(clock: str = CLOCK) -> str:
    """Writes one entry and returns {now, found incarnation or nil, written, all entries}.

    `clock` is there for tests, which move it.
    """
    return clock + _SHARED + _BEAT


def view_script(clock: str = CLOCK) -> str:
    """Returns {now, ids that have expired, all entries}; writes nothing."""
    return clock + _SHARED + _VIEW


def leave_script(clock: str = CLOCK) -> str:
    """Removes one entry and returns 1 if it was alive."""
    return clock + _SHARED + _LEAVE
