"""`python -m tests.differential`: batch.py, in a module that other processes can import."""

import sys

from tests.differential.batch import main

if __name__ == "__main__":
    sys.exit(main())
