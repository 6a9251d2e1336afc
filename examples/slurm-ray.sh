#!/usr/bin/env bash
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
# An ingest on a Ray that Slurm starts: sbatch slurm-ray.sh TRACES DATA. Both folders, the program
# and the Python that has Ray lie on a file system that all nodes share.
set -euo pipefail
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Starts Ray on each node, runs the command on the first, and ends Ray after it.
srun --nodes="$SLURM_NNODES" --ntasks-per-node=1 ray symmetric-run \
    --address "$head:6379" --min-nodes "$SLURM_NNODES" --num-cpus "$SLURM_CPUS_PER_TASK" -- \
    ccl-sql ingest "$1" --data "$2" --engine ray=auto
