"""python -m scripts.benchmarks, from the repository's root."""

import sys

from scripts.benchmarks.cli import main

sys.exit(main())
