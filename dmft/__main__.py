"""`python -m dmft` is `dmft`."""

import sys

from dmft.cli import main

sys.exit(main())
