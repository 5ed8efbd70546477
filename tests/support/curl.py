"""The curl commands of the documents, done without curl."""

from __future__ import annotations

import shlex

import httpx

HERE = "127.0.0.1:9190"
"""Where the emulator's control API is in the documents."""


async def curl(command: str, control: str) -> None:
    """Does what this curl command says at `control`, and fails where it would be told a problem."""
    program, *words = shlex.split(command, comments=True)
    assert program == "curl"
    method, body, urls, streams = "GET", None, [], False
    rest = iter(words)
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-d":
                body = next(rest)
            case "-N":
                streams = True
            case _:
                urls.append(word)
    (url,) = urls
    assert url.startswith(HERE)
    # curl says so of every body, unless told otherwise.
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient(base_url=control, trust_env=False, timeout=60) as client:
        async with client.stream(method, url.removeprefix(HERE), content=body, headers=headers) as answer:
            if streams:
                async for line in answer.aiter_lines():
                    assert line.startswith("id: ")
                    break
            else:
                await answer.aread()
        assert answer.is_success, f"{command}: {answer.status_code} {answer.text}"
