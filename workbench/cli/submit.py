"""Write a Slurm script for a run, submit it, and print the job id and where output and log will be.

The job is warned before its time limit, writes a checkpoint, goes back into the queue and resumes, until it is done.
It reads a copy of the run file, made now, so that the file may be changed while the job waits.
Memory and time come from an estimate unless --time is given. Options of the site (partition, account) are given with
--sbatch, or through the variables SBATCH_PARTITION, SBATCH_ACCOUNT of Slurm itself.

examples:
  dmft submit runs/demo.toml --dry-run                          only write and show the script
  dmft submit runs/demo.toml --ranks 32 --time 12:00:00         theory
  dmft submit runs/demo.toml --simulate --ranks 8               simulation
  dmft submit runs/demo.toml --compare                          theory and simulation, then dmft compare
  dmft submit runs/demo.toml --array problem.alpha=2,2.5,3 --array problem.m0=0.1,0.2      a grid
  dmft submit runs/demo.toml --array problem.alpha=2,2.5,3 --with problem.m0=0.3,0.2,0.1   pairs
  dmft collect runs/out/demo                                    gather that scan
  dmft submit runs/demo.toml --samples 1000,4000,16000          dmft converge
  dmft submit runs/arnaboldi/figure1.toml --simulate            onepass simulate (without --simulate: onepass solve)
  dmft submit runs/demo.toml --gpus 2 --ranks 2 --prologue modules.sh
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmft.core.command import EXIT_DONE, default_output, load_plugin, seconds, set_options
from dmft.core.errors import FileError, UserError
from dmft.core.schema import as_words
from dmft.running.cost import Cost
from workbench.cli import converge
from workbench.cli.programs import GUESS, SIMULATION, THEORY_PROGRAM, Program, largest, programs
from workbench.cluster.script import SRUN, Resources, Script, clock, plain
from workbench.scans.points import Along, GridPoint, grid

SHORTEST, LONGEST = 600.0, 86400.0      # seconds: bounds of the time limit when --time is not given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", type=Path, help="run file")
    parser.add_argument("-o", "--output", metavar="PATH", type=Path,
                        help="result file, or folder with --array and --compare (default: under runs/out/)")
    set_options(parser)
    parser.add_argument("--array", metavar="section.key=v1,v2,...", action="append", default=[],
                        help="a job and a result file for each value; several --array make a grid")
    parser.add_argument("--with", dest="array", metavar="section.key=v1,v2,...", action="append", type=Along,
                        help="values of another key, one for each value of the --array before it: pairs instead of a grid")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--simulate", action="store_true", help="the simulation instead of the theory")
    what.add_argument("--compare", action="store_true", help="theory, simulation, and their comparison when both are done")
    parser.add_argument("--ranks", metavar="N", type=int, default=1, help="MPI ranks (default 1)")
    parser.add_argument("--nodes", metavar="N", type=int, default=1, help="nodes (default 1)")
    parser.add_argument("--gpus", metavar="N", type=int, default=0, help="GPUs of the job; sets device = \"gpu\" (default 0)")
    parser.add_argument("--cores", metavar="N", type=int, default=1, help="cores, hence threads, of a rank (default 1)")
    parser.add_argument("--time", metavar="HH:MM:SS",
                        help="time limit, after which the job is requeued and resumes (default: from the estimate)")
    parser.add_argument("--launcher", default=SRUN, help=f"command that starts the ranks (default: {SRUN})")
    parser.add_argument("--sbatch", metavar="OPTION", action="append", default=[],
                        help="further option of sbatch, e.g. --sbatch=--partition=long; may be repeated")
    parser.add_argument("--prologue", metavar="FILE", type=Path, help="shell lines to run first, e.g. module load ...")
    converge.add_axes(parser)
    parser.add_argument("--plugin", dest="plugins", metavar="FILE.py", type=Path, action="append", default=[],
                        help="Python file with extensions of your own, e.g. a loss")
    parser.add_argument("--dry-run", action="store_true", help="write and show the scripts, submit nothing")


def run(options: argparse.Namespace) -> int:
    if min(options.ranks, options.nodes, options.cores) < 1 or options.nodes > options.ranks:
        raise UserError(f"--ranks {options.ranks} --nodes {options.nodes} --cores {options.cores}: each at least 1, and "
                        "no more nodes than ranks")
    if options.gpus < 0 or options.gpus % options.nodes:
        raise UserError(f"--gpus {options.gpus} --nodes {options.nodes}: take a multiple of --nodes, the same number on every node")
    _refuse_control_characters(options)
    points = grid(options.array, "--array") if options.array else [GridPoint(())]
    todo = programs(options)
    for plugin in options.plugins:      # not before names that do not go into a script are refused
        load_plugin(str(plugin))
    runs = [todo[0].load(options.run, [*options.overrides, *point.settings]) for point in points]
    if not options.dry_run and shutil.which("sbatch") is None:
        raise UserError("sbatch is not found: this machine has no Slurm; log in to the cluster, or use --dry-run to see "
                        "the script")
    if 0 < options.gpus < options.ranks:
        cards = f"{options.gpus} card{'s' if options.gpus > 1 else ''}"
        print(f"note: {options.ranks} ranks take turns on {cards} and share the memory; one rank a card is faster (docs/gpu.md)")
    submission = _Submission(options, points, _folder(options))
    jobs = [submission.compute(program, runs) for program in todo]
    if options.compare:
        submission.compare(jobs)
    if options.array:
        print(f"when done: {shlex.join(['dmft', 'collect', str(submission.folder)])}")
    return EXIT_DONE


def _refuse_control_characters(options: argparse.Namespace) -> None:
    """RunError for control characters in the paths, options and values that end up in the scripts."""
    plain("run file", str(options.run))
    plain("-o", str(options.output or ""))
    for option in options.sbatch:
        if not plain("--sbatch", option).startswith("-"):
            raise UserError(f"--sbatch {option!r}: not an option; write e.g. --sbatch=--partition=long")
    for plugin in options.plugins:
        plain("--plugin", str(plugin))
    plain("--prologue", str(options.prologue or ""))
    plain("folder", str(_folder(options)))


def _folder(options: argparse.Namespace) -> Path:
    """The folder for results, scripts and logs: that of the output, or one of its own for a scan or a comparison."""
    output = options.output or default_output(options.run, "theory")
    if options.array or options.compare:
        return (options.output or output.parent / options.run.stem).absolute()
    return output.absolute().parent


@dataclass
class _Submission:
    """The scripts of one `dmft submit`."""

    options: argparse.Namespace
    points: list[GridPoint]
    folder: Path

    def compute(self, program: Program, runs: list[Any]) -> str | None:
        """Submit a program for all points; returns the job id."""
        options, kind = self.options, program.kind
        section = "simulation" if kind == "simulation" else "theory"
        copy, device = self._copy(kind), [f"{section}.device=gpu"] * bool(options.gpus)
        placed = [run.replace({f"{section}.device": "gpu"}) for run in runs] if options.gpus else runs
        costs = [program.cost(run, options.ranks, options.cores, options.gpus) for run in placed]
        known = largest([cost for cost in costs if cost]) if any(costs) else None
        commands = []
        for point in self.points:
            settings = as_words((*options.overrides, *device, *point.settings))
            plugins = [word for plugin in options.plugins for word in ("--plugin", str(plugin.absolute()))]
            commands.append([sys.executable, "-m", *program.words, str(copy), *settings, *plugins, *program.options,
                             "-o", str(self._output(point, kind)), "--resume"])
        told = known.text() if known else "no estimate for onepass: four hours and 1.4 GiB a rank; --time and --sbatch give others"
        print(f"{kind}: {told}" + (", for the largest point" if options.array and known else ""))
        return self._submit(self._script(kind, commands), self._resources(known or GUESS))

    def _copy(self, kind: str) -> Path:
        """Copy the run file under a new name; the job reads the copy, so that later changes of the file do not matter."""
        content = self.options.run.read_bytes()
        place = self.folder / f"{self.options.run.stem}.{kind}.{hashlib.sha256(content).hexdigest()[:8]}.toml"
        _write(place, content)
        return place

    def compare(self, jobs: list[str | None]) -> str | None:
        """Submit the comparison of theory and simulation, point by point, after their jobs."""
        commands = []
        for point in self.points:
            theory, simulation = (self._output(point, program.kind) for program in (THEORY_PROGRAM, SIMULATION))
            commands.append([sys.executable, "-m", "dmft", "compare", str(theory), str(simulation),
                             "--plot", str(theory.with_name(self._name(point, "compare") + ".png"))])
        after = "aftercorr" if self.options.array else "afterok"
        wait = ":".join([f"--dependency={after}", *(job or "JOB" for job in jobs)])
        script = self._script("compare", commands)
        return self._submit(replace(script, options=[*script.options, wait, "--kill-on-invalid-dep=yes"]), None)

    def _name(self, point: GridPoint, kind: str) -> str:
        return f"{point.name or self.options.run.stem}.{kind}"

    def _output(self, point: GridPoint, kind: str) -> Path:
        single = not (self.options.array or self.options.compare)
        if single:
            return (self.options.output or default_output(self.options.run, kind)).absolute()
        return self.folder / f"{self._name(point, kind)}.h5"

    def _script(self, kind: str, commands: list[list[str]]) -> Script:
        array = bool(self.options.array)
        output = self._output(self.points[0], kind)
        log = self.folder / f"{self.options.run.stem}.{kind}.log" if array else output.with_suffix(".log")
        return Script(f"{self.options.run.stem}.{kind}", log, commands, array, self.options.sbatch,
                      _prologue(self.options.prologue))

    def _resources(self, cost: Cost) -> Resources:
        options = self.options
        limit = seconds(options.time, "--time") or min(max(2.0 * cost.seconds, 3.0 * cost.stop_seconds, SHORTEST), LONGEST)
        if limit < 60.0:
            raise UserError(f"--time {options.time}: Slurm counts time limits in minutes; at least 00:01:00")
        warning = min(cost.stop_seconds, limit / 3.0)
        if limit < 3.0 * cost.stop_seconds:
            print(f"warning: the last checkpoint may need {cost.stop_seconds:.0f} s; a limit of {clock(limit)} leaves "
                  f"{warning:.0f} s. If that is too short, the job ends at its limit with the checkpoint before: submit it again")
        return Resources(options.ranks, options.nodes, options.cores, limit, cost.rank_bytes, warning, options.launcher,
                         options.gpus // options.nodes)

    def _submit(self, script: Script, resources: Resources | None) -> str | None:
        text = script.resumable(resources) if resources else script.once()
        place = self.folder / f"{script.name}.sbatch"
        _write(place, text.encode())
        if self.options.dry_run:
            print(f"script: {place}\n{text}")
            return None
        done = subprocess.run(["sbatch", "--parsable", str(place)], capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"sbatch refused {place}: {done.stderr.strip()}; {shlex.join(['sbatch', str(place)])} tries again")
        job = done.stdout.strip().split(";")[0]
        outputs = self.folder if script.array or not resources else self._output(self.points[0], script.name.rpartition(".")[2])
        tasks = f", with .0 to .{len(script.commands) - 1} before its ending" if script.array else ""
        print(f"job {job}: {script.name}\n  output: {outputs}\n  log:    {script.log}{tasks}\n  script: {place}")
        return job


def _write(place: Path, content: bytes) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    except OSError as error:
        raise FileError(f"{place}: cannot be written: {error.strerror}") from None


def _prologue(path: Path | None) -> str:
    """The shell lines of --prologue, which are the user's own and run as they are."""
    if path is None:
        return ""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"--prologue {path}: cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from None
    if "#SBATCH" in text:
        raise UserError(f"--prologue {path}: Slurm would not obey the #SBATCH lines in it; give options with --sbatch")
    return text
