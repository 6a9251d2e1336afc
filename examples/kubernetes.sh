#!/usr/bin/env bash
# An ingest as Indexed Jobs of Kubernetes (1.31 or later): kubernetes.sh TRACES DATA [SHARES]
#
# Both folders lie on the volume of CLAIM, which is mounted at /shared in each pod. IMAGE has
# `ccl-sql`. Runs where `kubectl` reaches the cluster; the pods alone see the files.
#
#   IMAGE=registry/ccl-sql CLAIM=traces examples/kubernetes.sh /shared/run1 /shared/ccl-data 64
#
# A share that ends with 1 met a file that cannot be read: its index fails, the others go on. A pod
# that was evicted, or whose node was lost, does not count; any other end is tried three times.
set -euo pipefail
traces=$1 data=$2 shares=${3:-64}
: "${IMAGE:?an image that has ccl-sql}" "${CLAIM:?a volume claim that all nodes can mount}"
name=${NAME:-ccl-sql-$(date +%s)}
plan=$data/.plan-$name

# manifest STEP SHARES WORD ...: the job of a step, which runs ccl-sql with these words.
manifest() {
    local step=$1 count=$2
    shift 2
    # Each word is a string of YAML, as JSON writes one. Kubernetes itself puts in $(...).
    local words
    words=$(printf '%s\n' "$@" | sed 's/[\\"]/\\&/g; s/.*/            - "&"/')
    cat <<EOF
apiVersion: batch/v1
kind: Job
metadata:
  name: $name-$step
  labels: {app: ccl-sql}
spec:
  completionMode: Indexed
  completions: $count
  parallelism: $count
  backoffLimitPerIndex: 3
  ttlSecondsAfterFinished: 86400
  podFailurePolicy:
    rules:
      - action: FailIndex
        onExitCodes: {containerName: ccl-sql, operator: In, values: [1, 2]}
      - action: Ignore
        onPodConditions: [{type: DisruptionTarget}]
  template:
    metadata:
      labels: {app: ccl-sql}
    spec:
      restartPolicy: Never
      containers:
        - name: ccl-sql
          image: "$IMAGE"
          command: [ccl-sql]
          args:
$words
          env:
            - name: JOB_COMPLETION_INDEX
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
          resources:
            requests: {cpu: "1", memory: 512Mi}
            limits: {memory: 512Mi}
          volumeMounts: [{name: shared, mountPath: /shared}]
      volumes:
        - name: shared
          persistentVolumeClaim: {claimName: "$CLAIM"}
EOF
}

# run STEP SHARES WORD ...: the job of a step, to its end. How it ended says the next step.
run() {
    manifest "$@" | kubectl apply -f - >&2
    until kubectl get job "$name-$1" -o 'jsonpath={.status.conditions[*].type}' |
        grep -qE 'Complete|Failed'; do
        sleep "${POLL:-5}"
    done
}

share="\$(JOB_COMPLETION_INDEX)/$shares"
run plan 1 plan "$traces" --data "$data" -o "$plan"
run read "$shares" task read "$plan" "$share"
run layout 1 task layout "$plan"
run join "$shares" task join "$plan" "$share"
run derive "$shares" task derive "$plan" "$share"
run groups 1 task groups "$plan"
run place "$shares" task place "$plan" "$share"
run match 1 task match "$plan"
run collect "$shares" task collect "$plan" "$share"
run finish 1 task finish "$plan"
kubectl logs "job/$name-finish"
