"""A real Slurm on this machine: munged, slurmctld and two slurmd on loopback, from nothing but the programs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo")
PATIENCE = 600.0        # seconds; only what hangs for good takes so long
_PLACES = os.pathsep.join(["/usr/sbin", "/usr/local/sbin", "/sbin"])

# One job starts a second: two steps that a slurmd of version 22.05 launches within a millisecond can hold each other's pipes, and
# it then answers nobody until its node is called down.
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=defer,sched_interval=1,sched_min_interval=1000000,sched_max_job_start=1,batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=30
SlurmdTimeout=60
MinJobAge=600
MailProg=/bin/true
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 RealMemory=8000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=8000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_PLACES)


def missing() -> str:
    """Why no cluster can be started here; "" when one can."""
    absent = [name for name in PROGRAMS if program(name) is None]
    return f"Slurm is not installed (no {', '.join(absent)})" if absent else ""


class Cluster:
    """Start with `with Cluster(folder) as cluster`; everything is stopped again, by process id, whatever happens."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: list[subprocess.Popen] = []
        # NOLOCAL: MPICH names the memory that the ranks of a node share after the job step, so the two virtual nodes, on
        # one /dev/shm, would take each other's. Without it the ranks talk through the network, as between real nodes.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "SLURM_"))}
        self.environment |= {"SLURM_CONF": str(folder / "slurm.conf"), "MPIR_CVAR_NOLOCAL": "1", "DMFT_MPI_START": "60"}

    def __enter__(self) -> Cluster:
        try:
            self._configure()
            self._start_munge()
            self._start("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
            for node in ("n1", "n2"):
                self._start("slurmd", "-D", "-N", node, "-f", self.environment["SLURM_CONF"])
            self.wait_until(self._up, "the nodes to come up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if len(self.daemons) > 1:
                self._cancel_everything()
        finally:
            self._stop_daemons()

    def _cancel_everything(self) -> None:
        for which in (["--state=PENDING"], ["--full", "--signal=KILL"]):
            self.command(program("scancel"), "--quiet", *which, "--user", str(os.getuid()))
        time.sleep(0.5)

    def _stop_daemons(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()

    # --- starting

    def _configure(self) -> None:
        for name in ("state", "spool.n1", "spool.n2", "tmp.n1", "tmp.n2", "munge"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o711)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        Path(self.environment["SLURM_CONF"]).write_text(
            CONFIG.format(host=host, folder=self.folder, ports=_free_ports(3), user=_user()))

    def _start_munge(self) -> None:
        place = self.folder / "munge"
        self._start("munged", "--foreground", "--force", f"--key-file={place}/key", f"--socket={place}/socket",
                    f"--pid-file={place}/pid", f"--log-file={place}/log", f"--seed-file={place}/seed")
        self.wait_until((place / "socket").exists, "munged")

    def _start(self, name: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.{len(self.daemons)}.out", "wb") as log:
            self.daemons.append(subprocess.Popen([program(name), *arguments], env=self.environment, stdout=log,
                                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True))

    def _up(self) -> bool:
        for daemon in self.daemons:
            assert daemon.poll() is None, f"a daemon died: {daemon.args}\n{self.logs()}"
        return self.ask("sinfo", "-h", "-N", "-o", "%t", check=False).split() == ["idle", "idle"]

    # --- using

    def command(self, *words: str, **options) -> subprocess.CompletedProcess:
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, **options)

    def ask(self, name: str, *arguments: str, check: bool = True) -> str:
        done = self.command(program(name), *arguments)
        assert not check or done.returncode == 0, f"{name} {arguments}: {done.stderr}"
        return done.stdout

    def show(self, job: str) -> dict[str, str]:
        """What scontrol knows of a job."""
        words = self.ask("scontrol", "show", "job", "-o", job, check=False).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job: str) -> str:
        return self.show(job).get("JobState", "UNKNOWN")

    def restarts(self, job: str) -> int:
        return int(self.show(job).get("Restarts", 0))

    def hasten(self, job: str) -> None:
        """Let a requeued job start now; Slurm would let it wait for two minutes. Other jobs are left alone."""
        shown = self.show(job)
        if shown["JobState"] == "PENDING" and shown["Reason"] == "BeginTime" and int(shown["Restarts"]) > 0:
            time.sleep(1.1)
            self.ask("scontrol", "update", f"jobid={job}", "StartTime=now")

    def finish(self, job: str) -> dict[str, str]:
        """Wait for the end of a job, across requeues."""
        def ended() -> bool:
            self.hasten(job)
            return self.state(job) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")

        self.wait_until(ended, f"job {job}")
        self._skip_without_nodes()
        return self.show(job)

    def wait_until(self, condition, what: str) -> None:
        """Wait for something to happen, as long as a busy machine may need. What Slurm itself has lost is no failure of ours."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self._skip_without_nodes()
            assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s in vain for {what}\n{self.logs()}"
            time.sleep(0.2)

    def _skip_without_nodes(self) -> None:
        """Nothing is known of our jobs once a daemon that still runs has not answered Slurm for SlurmdTimeout."""
        lost = [line.split()[0] for line in self.ask("sinfo", "-h", "-N", "-o", "%N %t", check=False).splitlines()
                if line.endswith("down*")]
        running = all(daemon.poll() is None for daemon in self.daemons)
        if lost and running:
            pytest.skip(f"Slurm's own daemon stopped answering on {', '.join(lost)}\n{self.logs()}")

    def logs(self) -> str:
        parts = []
        for file in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")):
            lines = file.read_text(errors="replace").splitlines()[-15:]
            parts.append(f"--- {file.name}\n" + "\n".join(lines))
        return "\n".join(parts)


def _user() -> str:
    import pwd
    return pwd.getpwuid(os.getuid()).pw_name


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
