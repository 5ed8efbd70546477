"""`python -m infra`."""

import signal
import sys

from infra.cli import main

if __name__ == "__main__":
    # What CI sends is Ctrl-C too: a plan cleans up behind itself, a wait says what goes on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
