#!/usr/bin/env bash
# An ingest as arrays of Slurm: slurm.sh TRACES DATA [SHARES]. Both folders lie on a file system
# that all nodes share, and so does the program. Prints the last job; its output is the summary.
#
# A share that ends with 1 met a file that cannot be read: the others go on (afterany). What was
# lost with a node is run again (--requeue); what may pass (75) is tried three times.
set -euo pipefail
traces=$1 data=$2 shares=${3:-64}

plan=$(ccl-sql plan "$traces" --data "$data")
program=$(command -v ccl-sql)

# submit AFTER STEP [OPTION ...]: the number of the job.
submit() {
    local after=$1 step=$2
    shift 2
    sbatch --parsable --requeue --cpus-per-task=1 --mem=512M --job-name="ccl-sql-$step" \
        --output="$data/slurm-%x-%A_%a.log" ${after:+--dependency=afterany:$after} "$@" <<EOF
#!/bin/bash
share=\${SLURM_ARRAY_TASK_ID:+\$SLURM_ARRAY_TASK_ID/\$SLURM_ARRAY_TASK_COUNT}
for try in 1 2 3; do
    "$program" task $step "$plan" \$share
    code=\$?
    ((code == 75)) || exit \$code
    sleep 10
done
exit 75
EOF
}

array=(--array="0-$((shares - 1))")
job=$(submit "" read "${array[@]}")
job=$(submit "$job" layout)
job=$(submit "$job" join "${array[@]}")
job=$(submit "$job" derive "${array[@]}")
job=$(submit "$job" groups)
job=$(submit "$job" place "${array[@]}")
job=$(submit "$job" match)
job=$(submit "$job" collect "${array[@]}")
submit "$job" finish
