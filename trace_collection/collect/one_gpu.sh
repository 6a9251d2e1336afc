#!/usr/bin/env bash
# Runs a command in several processes on one GPU, so that NCCL takes each for a rank of its own.
# `one_gpu.sh -h` says how; ../README.md has examples.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: one_gpu.sh N COMMAND [ARGUMENT]...

Runs N processes of COMMAND with RANK, LOCAL_RANK=0, WORLD_SIZE=N, MASTER_ADDR and MASTER_PORT in
their environment, all on GPU 0 (CUDA_VISIBLE_DEVICES says another). NCCL refuses two ranks on one
GPU of a host, so each process calls itself another host, and they talk over the loopback interface.

Where nvidia-cuda-mps-control is found, it shares the GPU between them (MPS) until the end, unless
one serves already. Without it they take turns of about 2 ms, and calls take as long as the turns.
What is recorded so has the calls, sizes and groups of a job; its bandwidths are those of loopback.

  one_gpu.sh 4 python pipeline.py --out runs/pipeline

Exit code: that of the first rank that fails; 2 for a wrong command line.
USAGE
}

case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
esac
if (($# < 2)) || [[ ! $1 =~ ^[1-9][0-9]{0,2}$ ]]; then
    usage >&2
    exit 2
fi
ranks=$1
shift

export MASTER_ADDR=127.0.0.1 MASTER_PORT="${MASTER_PORT:-29500}"
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"

mps=''
stop_mps() {
    [[ -z $mps ]] || echo quit | nvidia-cuda-mps-control >&2 || true
    [[ -z $mps ]] || rm -rf -- "$mps"
}
if [[ -z ${CUDA_MPS_PIPE_DIRECTORY-} ]] && type -P nvidia-cuda-mps-control >/dev/null; then
    mps=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$mps/pipe CUDA_MPS_LOG_DIRECTORY=$mps/log
    mkdir -- "$mps/pipe" "$mps/log"
    trap stop_mps EXIT
    nvidia-cuda-mps-control -d >&2
fi

processes=()
for ((rank = 0; rank < ranks; rank++)); do
    NCCL_HOSTID=rank$rank RANK=$rank LOCAL_RANK=0 WORLD_SIZE=$ranks "$@" &
    processes+=($!)
done
status=0
for ((left = ranks; left > 0; left--)); do
    code=0
    wait -n || code=$?
    if ((code != 0 && status == 0)); then
        status=$code
        # The others wait for it in their next call.
        kill -- "${processes[@]}" 2>/dev/null || true
    fi
done
exit "$status"
