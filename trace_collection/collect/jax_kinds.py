#!/usr/bin/env python3
"""Training with sharded weights and five kinds of collectives in JAX, over several processes.

    one_gpu.sh 2 python jax_kinds.py --out runs/jax

writes DIR/process<N>/plugins/profile/<time>/<host>.xplane.pb. Each process has one device.
"""

import argparse
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, LAYERS = 1024, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=4, help="steps to record [4]")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(master, world, rank, local_device_ids=[0])
    mesh = Mesh(jax.devices(), ("d",))

    def shard(array):
        rows = NamedSharding(mesh, P("d"))
        return jax.make_array_from_callback(array.shape, rows, lambda at: array[at])

    def random(rows, scale):
        numbers = np.random.default_rng(rows).standard_normal((rows, WIDTH))
        return shard((numbers * scale).astype(np.float32))

    weights = [random(WIDTH, 0.02) for _ in range(LAYERS)]
    x = random(512 * world, 1.0)

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean(x * x)

    @jax.jit
    def train(weights, x):
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return value, [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    def kinds(x):
        total = jax.lax.psum(x, "d").sum()
        total += jax.lax.all_gather(x, "d", tiled=True).sum()
        total += jax.lax.psum_scatter(jnp.concatenate([x] * world), "d", tiled=True).sum()
        ring = [(i, (i + 1) % world) for i in range(world)]
        total += jax.lax.ppermute(x, "d", ring).sum()
        total += jax.lax.all_to_all(x, "d", 0, 0, tiled=True).sum()
        return total + jnp.zeros(x.shape[:1])

    def step(weights):
        value, weights = train(weights, x)
        jax.block_until_ready((value, kinds(x), weights))
        return weights

    for _ in range(2):
        weights = step(weights)  # compiles, and makes communicators
    with jax.profiler.trace(f"{args.out}/process{rank}"):
        for n in range(args.steps):
            with jax.profiler.StepTraceAnnotation("train", step_num=n):
                weights = step(weights)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
