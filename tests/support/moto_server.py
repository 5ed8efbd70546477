"""moto as a server of this process: AWS's API over real HTTP, with nothing of an earlier test in it.

`python -m tests.support.moto_server FILE` is one to try `python -m infra` on by hand, until Ctrl-C; FILE gets
the parameters with which both stacks can be made in it.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

import tests.support.moto_more_types  # noqa: F401 - more types for its CloudFormation


@contextmanager
def moto_server(port: int = 0) -> Iterator[str]:
    """Its URL. What it holds is gone at the end, although it is the process's."""
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        moto_api_backend.reset()


def parameters(url: str, region: str) -> str:
    """What both templates need, as YAML: moto's own VPC, and names that nothing has to stand behind."""
    nobody = boto3.Session("nobody", "nobody", region_name=region)
    ec2 = nobody.client("ec2", endpoint_url=url)
    subnets = ec2.describe_subnets()["Subnets"][:2]
    ids = ", ".join(subnet["SubnetId"] for subnet in subnets)
    return (
        f"VpcId: {subnets[0]['VpcId']}\nSubnetIds: [{ids}]\nLoadBalancerSubnetIds: [{ids}]\n"
        "ImageUri: gateway:0.1.0\nCloudMapNamespace: video\nCloudMapService: streamers\n"
    )


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m tests.support.moto_server", description="moto, to try on")
    words.add_argument("file", type=Path, help="gets the parameters for python -m infra")
    words.add_argument("--port", type=int, default=5000, help="0: a free one (5000)")
    words.add_argument("--region", default="eu-central-1", help="of the subnets in FILE (eu-central-1)")
    given = words.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # in the server's threads too
    with moto_server(given.port) as url:
        given.file.write_text(parameters(url, given.region))
        sys.stdout.write(f"{url}: region {given.region}, parameters in {given.file}; Ctrl-C ends it\n")
        sys.stdout.flush()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
