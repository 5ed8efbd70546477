"""Stands in for a gateway under test: `python -m tests.support.fake_gateway HOW`. Listens on GRANIAN_PORT.

It answers every HTTP request with 200 and carries no session. HOW it misbehaves:

- `well`: not at all.
- `never`: it says so, and never listens.
- `ends`: it ends at once with status 7, after a line on stderr.
- `deaf`: SIGTERM does nothing to it.
- `family`: it has a child in its process group that SIGTERM does nothing to.
- `dies`: it serves, and ends with status 3 at the first upgrade.
- `orphans`: as `dies`, with a child in a session of its own that keeps the output open and that SIGTERM does
  nothing to.
- `broken`: it answers /readyz with 503 for ever.
"""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEAF_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Answer(BaseHTTPRequestHandler):
    how = "well"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade") and self.how in ("dies", "orphans"):
            os._exit(3)
        body = b"{}"
        self.send_response(503 if self.how == "broken" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(how: str) -> int:
    tell(f"fake gateway: {how}")
    if how == "ends":
        sys.stderr.write("cannot live like that\n")
        return 7
    if how == "never":
        time.sleep(600)
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how in ("family", "orphans"):
        child = subprocess.Popen([sys.executable, "-c", DEAF_CHILD], start_new_session=how == "orphans")
        tell(f"child {child.pid}")
    Answer.how = how
    socketserver.TCPServer.allow_reuse_address = True
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["GRANIAN_PORT"])), Answer).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
