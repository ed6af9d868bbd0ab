"""python -m sgd_sim: the same as sgd-sim."""

import sys

from sgd_sim.cli import main

sys.exit(main())
