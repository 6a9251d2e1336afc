#!/usr/bin/env python3
"""Runs a command, and prints its wall seconds, CPU seconds and peak bytes, children included.

    measure.py COMMAND [WORD...]

A process begins with the peak memory of the one that started it, so a large benchmark must not
start what it measures: this small one does.
"""

import json
import os
import subprocess
import sys
import time


def main():
    start = time.monotonic()
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    print(json.dumps([wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]))
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
