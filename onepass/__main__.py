"""python -m onepass."""

import sys

from onepass.cli import main

if __name__ == "__main__":
    sys.exit(main())
