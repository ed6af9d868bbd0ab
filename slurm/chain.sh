#!/bin/bash
# Theory and simulation side by side, and their comparison when both are done: bash slurm/chain.sh
set -euo pipefail
export PROJECT="${PROJECT:-$HOME/dmft}"     # the folder where `make setup` was run
export RUN="${RUN:-runs/demo.toml}"         # the run file
export FOLDER="${FOLDER:-runs/out}"         # where results go

scripts="$PROJECT/slurm"
theory=$(sbatch --parsable "$scripts/theory.sbatch")
simulation=$(sbatch --parsable "$scripts/simulation.sbatch")
# A requeued job has not ended: the comparison waits until both jobs are done.
compare=$(sbatch --parsable --dependency="afterok:$theory:$simulation" --kill-on-invalid-dep=yes "$scripts/compare.sbatch")
echo "theory: job $theory, simulation: job $simulation, comparison: job $compare"
