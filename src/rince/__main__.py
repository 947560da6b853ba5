"""``python -m rince`` is ``rince``."""

import sys

from rince.cli import main

if __name__ == "__main__":
    sys.exit(main())
