"""python -m emulator"""

import sys

from emulator.cli import main

if __name__ == "__main__":
    sys.exit(main())
