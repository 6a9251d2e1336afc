"""An ingest as stages of Spark: spark-submit spark.py PLAN [PROGRAM [OPTION ...]].

PLAN is what `ccl-sql plan TRACES --data DATA` printed. It, the traces, the data and PROGRAM lie on
a file system that all executors share. OPTIONs are those of `ccl-sql task`, such as --sql-dir.

Spark places the tasks, and runs again what failed: set spark.task.maxFailures for how often. With
spark.speculation=true slow tasks get a second copy, which does no harm.
"""

import json
import subprocess
import sys

from pyspark.sql import SparkSession

ALONE = ("layout", "finish")
"""Steps of one task, which has no number."""


def run(command: list[str]) -> tuple[int, str]:
    """Runs a task: how it ended, and what it said. Spark tries again what raises."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    # 1: the file cannot be read, or the table not be made. Trying again would change nothing.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.returncode, done.stderr


def main(plan: str, program: str = "ccl-sql", *options: str) -> int:
    """Runs a plan to its end; the exit code of its last task."""
    spark = SparkSession.builder.appName("ccl-sql").getOrCreate()
    code, said = 0, ""
    while True:
        listing = [program, "task", "list", plan, *options]
        now = json.loads(subprocess.run(listing, stdout=subprocess.PIPE, check=True).stdout)
        step = now["step"]
        if step is None:
            break
        tasks = sorted(now["tasks"], key=lambda t: t["size"], reverse=True)
        numbers = [[] if step in ALONE else [str(t["n"])] for t in tasks]
        commands = [[program, "task", step, plan, *n, *options] for n in numbers]
        # The largest first, one of them in each task of Spark.
        stage = spark.sparkContext.parallelize(commands, len(commands))
        spark.sparkContext.setJobDescription(f"ccl-sql {step}")
        ended = stage.map(run).collect()
        if step == "finish":
            code, said = ended[0]
    spark.stop()
    sys.stderr.write(said)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
