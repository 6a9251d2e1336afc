#!/usr/bin/env python3
"""A pipeline of two stages, each with data parallelism, for torchrun or one_gpu.sh.

    one_gpu.sh 4 python pipeline.py --out runs/pipeline

writes DIR/torch_profiler/rank<N>/trace.json.gz and a memory snapshot beside it, both on GPUs.
--nvtx marks the steps for Nsight Systems and records nothing itself. Rank 2 is late: it sleeps for
3 ms in every step, before the gradients of its stage are summed.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.profiler import ProfilerActivity, profile, record_function, schedule

WIDTH, HEADS, MICRO_BATCHES = 256, 4, 4


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.before(x)).view(batch, length, 3 * HEADS, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, dim=1)
        attention = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3, help="steps to record [3]")
    parser.add_argument("--nvtx", action="store_true", help="for Nsight Systems")
    args = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    # The names of the dimensions are in the trace, and say what the traffic of a group is for.
    mesh = init_device_mesh(device.type, (2, world // 2), mesh_dim_names=("pp", "dp"))
    stage_index, replicas = mesh["pp"].get_local_rank(), mesh["dp"].get_group()

    dtype = torch.bfloat16 if on_gpu else torch.float32
    model = Block().to(device, dtype)
    stage = PipelineStage(model, stage_index, 2, device, group=mesh["pp"].get_group())
    pipeline = Schedule1F1B(
        stage,
        n_microbatches=MICRO_BATCHES,
        loss_fn=lambda y, target: (y - target).float().square().mean(),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(2 * MICRO_BATCHES, 256, WIDTH, device=device, dtype=dtype)

    def step():
        optimizer.zero_grad()
        if stage_index == 0:
            pipeline.step(batch)
        else:
            pipeline.step(target=batch)
        if rank == 2:
            if on_gpu:
                torch.cuda.synchronize()
            time.sleep(0.003)
        with record_function("sum of gradients"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=replicas)
        optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()

    wait, warmup = 1, 2
    steps = wait + warmup + args.steps
    if args.nvtx:
        for n in range(steps):
            torch.cuda.nvtx.range_push(f"step {n}")
            step()
            torch.cuda.nvtx.range_pop()
        dist.destroy_process_group()
        return

    folder = args.out / "torch_profiler" / f"rank{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    if on_gpu:
        torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    with profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])],
        schedule=schedule(wait=wait, warmup=warmup, active=args.steps, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "trace.json.gz")),
        record_shapes=True,
    ) as profiler:
        for _ in range(steps):
            step()
            profiler.step()
    if on_gpu:
        torch.cuda.memory._dump_snapshot(str(folder / f"rank{rank}_memory_snapshot.pickle"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
