#!/bin/bash
# Write the examples of this folder again, or into another one: bash slurm/renew.sh [FOLDER]
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd -P)
python=${PYTHON:-$project/.venv/bin/python}
folder=$(cd "${1:-$project/slurm}" && pwd -P)
away=$(mktemp -d)
trap 'rm -r "$away"' EXIT
mkdir "$away/runs"
cp "$project/runs/demo.toml" "$away/runs"
cd "$away"

submit() {
    PYTHONPATH=$project "$python" -m dmft submit runs/demo.toml --dry-run "$@" > /dev/null
}

example() {     # the script that was written, without the paths of this machine
    sed -e "s|$python|/home/me/dmft/.venv/bin/python|g" -e "s|$(pwd -P)|/home/me/dmft|g" "$1" > "$folder/$2"
}

submit --compare --ranks 4 --nodes 2 --time 04:00:00 -o runs/out/demo
for kind in theory simulation compare; do
    example "runs/out/demo/demo.$kind.sbatch" "$kind.sbatch"
done
submit --array problem.alpha=2,2.5,3,3.5,4 -o runs/out/sweep
example runs/out/sweep/demo.theory.sbatch sweep.sbatch
