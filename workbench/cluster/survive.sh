# Shell functions for batch scripts: run a resumable command, again and again, until it is done.
#
#   survive COMMAND...    run it; COMMAND must be resumable (dmft solve ... --resume, sgd-sim run ... --resume)
#
# - USR1 (Slurm's warning before the time limit, --signal=B:USR1@...) and TERM (scancel, preemption) are passed on to
#   the command, which writes a checkpoint and ends with 75.
# - 75 puts the job back into the queue (scontrol requeue), from which it resumes at the checkpoint; unless the job was
#   cancelled, or Slurm is requeueing it already.
# - 0, 2, 3, 4 and 130 (done, bad input, diverged, not converged, interrupted) end the job with that code.
# - Anything else is a death (a killed rank, a lost node): tried again from the checkpoint, at most 3 times a job start.

# Threads: one rank uses the cores of its task, not those of the node. srun no longer inherits the number by itself.
export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}" NUMBA_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
export OPENBLAS_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}" SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"

_child= _signalled= _warned= _cancelled=
_pass_on() {
    _signalled=1
    [ "$1" = TERM ] && _cancelled=1 || _warned=1
    # mpirun ends its ranks at once on TERM; USR1 reaches them through any launcher.
    [ -n "$_child" ] && kill -USR1 "$_child" 2>/dev/null
}
trap '_pass_on USR1' USR1
trap '_pass_on TERM' TERM

_once() {
    local code
    _signalled=
    "$@" &
    _child=$!
    while :; do
        wait "$_child"
        code=$?
        # A trap cuts `wait` short; wait again for the true exit code.
        [ -z "$_signalled" ] && break
        _signalled=
    done
    _child=
    return "$code"
}

survive() {
    local code deaths=0
    while :; do
        _once "$@"
        code=$?
        case $code in
            0 | 2 | 3 | 4 | 130) exit "$code" ;;
            75) break ;;
        esac
        # The warning came before the command could catch it; it resumes from the checkpoint before.
        [ -n "$_warned" ] && break
        deaths=$((deaths + 1))
        if [ "$deaths" -ge 3 ] || [ -n "$_cancelled" ]; then
            echo "died with exit code $code, $deaths times; the checkpoint is kept, submit again to continue" >&2
            exit "$code"
        fi
        echo "died with exit code $code; trying again from the checkpoint" >&2
    done
    local job="${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}}"
    job="${job:-$SLURM_JOB_ID}"
    if [ -n "$_cancelled" ] || ! scontrol show job "$job" | grep -q 'JobState=RUNNING'; then
        echo "cancelled; the checkpoint is kept, submit again to continue" >&2
    elif scontrol requeue "$job"; then
        echo "requeued job $job: it continues from the checkpoint" >&2
        sleep 60    # Slurm ends this script now
    fi
    exit 75
}
