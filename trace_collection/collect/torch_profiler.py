#!/usr/bin/env python3
"""A small DDP training that records traces as ccl-sql reads them best; copy from it.

    torchrun --standalone --nproc-per-node 2 torch_profiler.py --out DIR

writes DIR/torch_profiler/rank<N>/trace.json, one file per rank (DIR: $SWEEP_DIR where it is set). It
computes on GPUs over NCCL or RCCL where there are any, else on the CPU over gloo.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=os.environ.get("SWEEP_DIR"))
    parser.add_argument("--steps", type=int, default=4, help="steps to record [4]")
    parser.add_argument("--batch", type=int, default=16, help="sequences per rank and step [16]")
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--execution-trace", action="store_true", help="torch_et_<N>.json, too")
    parser.add_argument("--memory", action="store_true", help="a memory snapshot per rank, too (GPU)")
    args = parser.parse_args()
    if args.out is None:
        parser.error("--out or SWEEP_DIR says where to write")
    return args


def main():
    args = arguments()
    on_gpu = torch.cuda.is_available()  # also True on AMD
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # Before the profiler: it is the process group that distributedInfo (rank, world size) comes from.
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)

    # Layers of several sizes, and a bucket for each: a Hockney fit needs messages of different sizes.
    width = args.hidden
    layers = []
    for factor in (1, 2, 4, 8):
        layers += [torch.nn.Linear(width, width * factor), torch.nn.GELU()]
        layers += [torch.nn.Linear(width * factor, width)]
    model = DistributedDataParallel(
        torch.nn.Sequential(*layers).to(device),
        device_ids=[local_rank] if on_gpu else None,
        bucket_cap_mb=0.5,
    )
    optimizer = torch.optim.AdamW(model.parameters())

    folder = args.out / "torch_profiler" / f"rank{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    observer = None
    if args.execution_trace:
        observer = ExecutionTraceObserver().register_callback(str(folder / f"torch_et_{rank}.json"))
    if args.memory and on_gpu:
        torch.cuda.memory._record_memory_history(max_entries=200_000)

    activities = [ProfilerActivity.CPU]
    if on_gpu:
        activities.append(ProfilerActivity.CUDA)
    # The first steps allocate, compile and make communicators. Warm-up steps run with the profiler
    # on and are thrown away, so its own start is not in the trace either.
    wait, warmup = 3, 2
    with profile(
        activities=activities,
        schedule=schedule(wait=wait, warmup=warmup, active=args.steps, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "trace.json")),
        record_shapes=True,  # sizes of messages where the kernels do not say them
        with_stack=False,  # Python frames: the trace grows several times, and the host slows down
        profile_memory=False,
        execution_trace_observer=observer,
    ) as profiler:
        for _ in range(wait + warmup + args.steps):
            batch = torch.randn(args.batch, args.seq_len, width, device=device)
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            profiler.step()  # ends ProfilerStep#N, and begins the next

    if args.memory and on_gpu:
        torch.cuda.memory._dump_snapshot(str(folder / f"rank{rank}_memory_snapshot.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
