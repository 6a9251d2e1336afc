//! What is recorded beside the events of a job.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::World;
use super::dice::Dice;
use super::sheet::Sheet;

/// The tables so far.
type Sheets = BTreeMap<&'static str, Sheet>;

/// Fills the other tables of a job.
pub fn fill(world: &World, sheets: &mut Sheets) {
    let mut dice = Dice::new(&[world.number, 33]);
    let dice = &mut dice;
    ranks(world, dice, sheets);
    metadata(world, dice, sheets);
    for (word, fill) in [
        ("card", card as fn(&World, &mut Dice, &mut Sheets)),
        ("sampled", counters),
        ("snapshot", snapshot),
        ("timeline", timeline),
        ("bench", bench),
        ("moe", experts),
    ] {
        if world.has(word) {
            fill(world, dice, sheets);
        }
    }
    memory_counters(world, dice, sheets);
}

fn ranks(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("ranks").or_default();
    let mut source_id = 0;
    for source in world.sources {
        for rank in 0..world.ranks {
            let name = match *source {
                "xla" => "TPU v5p",
                _ if dice.chance(80) => "NVIDIA H100 80GB HBM3",
                _ => "NVIDIA A100-SXM4-40GB",
            };
            sheet.add(&[
                ("source", source),
                ("rank", &rank),
                ("source_id", &source_id),
                ("host", &format!("host{}", rank / 2)),
                ("pid", &(1000 + rank)),
                ("device", &(rank % 2)),
                ("device_name", &name),
                ("sm_count", &dice.one(&[108, 132, 132])),
                ("device_memory_bytes", &((3 + rank) << 30)),
                ("compute_capability", &"9.0"),
                ("backend", &"nccl"),
                ("comm_version", &dice.one(&["2.21.5", "2.21.5", "2.20.3"])),
                ("world_size", &world.ranks),
                ("rank_source", &"trace"),
            ]);
            for column in ["host", "device_name", "sm_count", "device_memory_bytes", "comm_version"]
            {
                if dice.chance(world.loss) {
                    sheet.lose(column);
                }
            }
            if dice.chance(world.loss) {
                sheet.set("world_size", &(2 * world.ranks));
            }
            if world.ranks == 1 {
                sheet.lose("world_size");
            }
            source_id += 1;
        }
    }
}

fn metadata(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("metadata").or_default();
    for rank in 0..world.ranks {
        let mut say = |key: &str, value: &dyn Display| {
            sheet.add(&[("rank", &rank), ("key", &key), ("value", value)]);
        };
        say("record_shapes", &i32::from(world.has("shapes")));
        say("with_stack", &dice.of(0, 1));
        say("profile_memory", &i32::from(dice.chance(50)));
        if world.has("hlo") {
            say(&format!("plane:/device:TPU:{rank}:peak_teraflops_per_second"), &"0.0003");
            say(&format!("plane:/device:TPU:{rank}:peak_hbm_bw_gigabytes_per_second"), &"3");
        }
        if world.has("nvtx") {
            say("step_marker", &"{\"by\":\"--step-range\",\"marker\":\"Step\"}");
        }
        if world.has("python") || world.has("nvtx") {
            say("call_chain:aa", &"[\"main\",\"train\"]");
        }
        if world.has("snapshot") {
            say("memory.allocator_settings.max_split_size", &dice.one(&["-1", "7"]));
            say("memory.allocator_settings.expandable_segments", &dice.one(&["true", "false"]));
        }
        if dice.chance(60) {
            let config = "{\"backend\":\"nccl\",\"pg_config\":[{\"pg_name\":\"0\",\
                          \"pg_desc\":\"default_pg\",\"pg_size\":4,\"ranks\":[0,1,2,3]}]}";
            say("distributedInfo", &config);
        }
    }
}

fn card(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("cards").or_default();
    let is_served = world.has("engine");
    let halves = (world.ranks / 2).max(1);
    sheet.add(&[
        ("path", &"card.yaml"),
        ("phase", &if is_served { "inference" } else { "training" }),
        ("model_family", &"llama"),
        ("precision", &dice.one(&["bf16", "fp32", "fp8"])),
        ("moe", &world.has("moe")),
        ("batch_size", &8),
        ("seq_len", &128),
        ("num_params", &1_000_000),
        ("num_layers", &2),
        ("num_heads", &4),
        ("head_dim", &16),
        ("xpu_type", &if world.has("hlo") { "TPU" } else { "GPU" }),
        ("xpu_model", &dice.one(&["h100", "a100"])),
        ("total_count", &world.ranks),
        ("count_per_node", &2),
        ("scale_out_gbit_per_s", &400),
        ("scale_up_gbit_per_s", &3600),
        ("tp", &halves),
        ("dp_shard", &if world.has("fsdp") { world.ranks / halves } else { 1 }),
        ("pp", &if world.has("pp") { 2 } else { 1 }),
        ("pp_mb", &4),
    ]);
    if is_served {
        ["batch_size", "seq_len"].iter().for_each(|column| sheet.lose(column));
        [("input_len", 64), ("output_len", 8), ("iteration", 2)]
            .iter()
            .for_each(|(column, value)| sheet.set(column, value));
    }
    if dice.chance(40) {
        sheet.set("num_params_active", &500_000);
        sheet.set("num_params_embedding", &1000);
    }
}

const SAMPLED: [&str; 8] = [
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "NVLink TX Requests User Data [Throughput %]",
    "NVLink TX Responses User Data [Throughput %]",
    "NVLink TX Requests Protocol Data [Throughput %]",
    "SMs Active [Throughput %]",
    "Tensor Active [Throughput %]",
    "PCIe TX Throughput [Throughput %]",
];

fn counters(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("counters").or_default();
    for rank in 0..world.ranks {
        let mut sent = 0;
        for place in 0..20 {
            let at = world.base + world.unit * (5 * place + dice.of(0, 1));
            for name in SAMPLED {
                if dice.chance(10) {
                    continue;
                }
                sheet.add(&[
                    ("source", &"nsys"),
                    ("rank", &rank),
                    ("ts_ns", &at),
                    ("name", &name),
                    ("device", &(rank % 2)),
                    ("value", &(10 * dice.of(0, 10))),
                    ("unit", &"Throughput %"),
                ]);
            }
            sent += 1000 * dice.of(0, 9);
            for name in ["nvlink.tx.0", "nvlink.rx.0", "nvlink.tx.1"] {
                sheet.add(&[
                    ("source", &"bench"),
                    ("rank", &rank),
                    ("ts_ns", &at),
                    ("name", &name),
                    ("device", &(rank % 2)),
                    ("value", &sent),
                    ("unit", &if name.ends_with('1') { "KiB" } else { "bytes" }),
                ]);
            }
        }
    }
}

fn memory_counters(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    if !world.sources.contains(&"kineto") {
        return;
    }
    let sheet = sheets.entry("counters").or_default();
    for rank in 0..world.ranks {
        let [mut held, mut reserved] = [0_i64, 0];
        for place in 0..12 {
            let at = world.base + world.unit * (7 * place + dice.of(0, 2));
            let change = (dice.of(-3, 5) << 28).max(-held);
            held += change;
            reserved = (reserved + (dice.of(-1, 1) << 28)).max(held);
            for (name, value) in [
                ("memory.bytes", change),
                ("memory.total_allocated", held),
                ("memory.total_reserved", reserved),
            ] {
                if dice.chance(world.loss) {
                    continue;
                }
                sheet.add(&[
                    ("source", &"kineto"),
                    ("rank", &rank),
                    ("ts_ns", &at),
                    ("name", &name),
                    ("device", &dice.one(&[0, 0, 0, -1])),
                    ("value", &value),
                    ("unit", &"bytes"),
                ]);
            }
        }
    }
}

/// Two snapshots of a rank: segments, their blocks and what the allocator did.
fn snapshot(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    for rank in 0..world.ranks {
        let source = 10 + rank;
        let first = source << 40;
        for n in 0..4 {
            let (segment, address) = (first + n, (1 + n) << 32);
            let sizes: Vec<i64> = (0..3).map(|_| dice.of(1, 4) << 26).collect();
            let states = ["active_allocated", "inactive", "active_pending_free"];
            let mut active = 0;
            let mut at = address;
            for (place, size) in sizes.iter().enumerate() {
                let state = dice.one(&states);
                let asked = if state == "inactive" { 0 } else { size - dice.of(0, 1) * 1000 };
                active += if state == "inactive" { 0 } else { *size };
                sheets.entry("memory_blocks").or_default().add(&[
                    ("rank", &rank),
                    ("source_id", &source),
                    ("block_id", &(first + 10 * n + place as i64)),
                    ("segment_id", &segment),
                    ("device", &(n % 2)),
                    ("address", &at),
                    ("size", size),
                    ("requested_size", &asked),
                    ("state", &state),
                    ("stack_id", &(first + dice.of(0, 3))),
                ]);
                at += size;
            }
            let total: i64 = sizes.iter().sum();
            sheets.entry("memory_segments").or_default().add(&[
                ("rank", &rank),
                ("source_id", &source),
                ("segment_id", &segment),
                ("device", &(n % 2)),
                ("address", &address),
                ("total_size", &total),
                ("allocated_size", &active),
                ("active_size", &active),
                ("segment_type", &dice.one(&["large", "small"])),
                ("segment_pool_id", &dice.one(&["[0,0]", "[0,0]", "[0,1]"])),
                ("is_expandable", &dice.one(&["true", "false"])),
                ("stack_id", &(first + dice.of(0, 3))),
            ]);
        }
        allocations(world, dice, sheets, (rank, source));
        stacks(dice, sheets, (rank, first));
    }
}

fn allocations(world: &World, dice: &mut Dice, sheets: &mut Sheets, (rank, source): (i64, i64)) {
    let actions = [
        "alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "snapshot",
        "oom",
    ];
    let sheet = sheets.entry("memory_events").or_default();
    for n in 0..40 {
        let action = dice.one(&actions);
        sheet.add(&[
            ("rank", &rank),
            ("source_id", &source),
            ("event_id", &((source << 40) + n)),
            ("form", &"snapshot"),
            ("device", &dice.of(0, 1)),
            ("action", &action),
            ("addr", &(dice.of(1, 6) << 32)),
            ("size", &(dice.of(0, 4) << 26)),
            ("stream", &dice.one(&[0, 7])),
            ("ts_ns", &(world.base + world.unit * (n + dice.of(0, 1)))),
            ("stack_id", &((source << 40) + dice.of(0, 3))),
        ]);
        if action == "oom" {
            sheet.set("device_free", &(dice.of(0, 3) << 26));
        }
        if dice.chance(world.loss) {
            sheet.lose("ts_ns");
        }
    }
}

fn stacks(dice: &mut Dice, sheets: &mut Sheets, (rank, first): (i64, i64)) {
    let sheet = sheets.entry("memory_stacks").or_default();
    for stack in 0..3 {
        for (depth, [function, file]) in
            [["malloc", "??"], ["forward", "model.py"], ["main", "train.py"]].iter().enumerate()
        {
            if depth > 0 && dice.chance(20) {
                continue;
            }
            sheet.add(&[
                ("rank", &rank),
                ("stack_id", &(first + stack)),
                ("depth", &depth),
                ("function", function),
                ("filename", file),
                ("line", &dice.of(1, 2)),
            ]);
        }
    }
}

fn timeline(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("memory_events").or_default();
    for rank in 0..world.ranks {
        let source = 20 + rank;
        for n in 0..30 {
            let action = dice.one(&["preexisting", "create", "create", "new_version", "destroy"]);
            let size = dice.of(1, 4) << 26;
            let is_less = action == "destroy" || action == "new_version" && dice.chance(50);
            sheet.add(&[
                ("rank", &rank),
                ("source_id", &source),
                ("event_id", &((source << 40) + n)),
                ("form", &"timeline"),
                ("action", &action),
                ("size", &if is_less { -size } else { size }),
                ("ts_ns", &(world.base + world.unit * (n / 2))),
                ("category", &dice.one(&["parameter", "activation", "gradient", "input"])),
            ]);
            if action == "preexisting" {
                sheet.lose("ts_ns");
            }
        }
    }
}

fn bench(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let formats = ["vllm_serve", "vllm_serve", "sglang_serve", "vllm_throughput", "vllm_latency"];
    for (record, format) in formats.iter().enumerate() {
        let asked = if record == 1 { 0 } else { 6 };
        let [completed, output] = [dice.of(0, 9), dice.of(0, 900)];
        let sheet = sheets.entry("benchmarks").or_default();
        sheet.add(&[
            ("source_id", &(record / 2)),
            ("record", &record),
            ("format", format),
            ("backend", &"vllm"),
            ("model", &"llama"),
            ("duration_ns", &(dice.of(1, 4) * 1_000_000_000)),
            ("request_rate", &dice.one(&["inf", "4.0"])),
            ("num_prompts", &10),
            ("max_concurrency", &dice.one(&[1, 8])),
            ("completed", &completed),
            ("failed", &(10 - completed)),
            ("total_input_tokens", &(completed * 64)),
            ("total_output_tokens", &output),
            ("request_throughput", &dice.of(0, 4)),
            ("output_throughput", &dice.of(0, 90)),
            ("total_token_throughput", &dice.of(0, 900)),
            ("requests", &asked),
            ("texts_left_out", &0),
        ]);
        for word in ["ttft", "tpot", "itl", "e2el"] {
            for of in ["mean", "median", "std", "p99"] {
                if !dice.chance(10 + world.loss) {
                    sheet.set(&format!("{of}_{word}_ms"), &dice.one(&[0, 5, 10, 20, 50]));
                }
            }
        }
        for request in 0..asked {
            let tokens = dice.of(0, 4);
            let gaps: Vec<i64> = (1..tokens).map(|_| dice.of(1, 5) * 10_000_000).collect();
            let first = dice.of(1, 5) * 50_000_000;
            let texts: Vec<String> = gaps.iter().map(i64::to_string).collect();
            let sheet = sheets.entry("requests").or_default();
            sheet.add(&[
                ("source_id", &(record / 2)),
                ("record", &record),
                ("request", &request),
                ("input_tokens", &64),
                ("output_tokens", &tokens),
                ("ttft_ns", &first),
                ("latency_ns", &(first + gaps.iter().sum::<i64>())),
                ("itl_ns", &format!("[{}]", texts.join(", "))),
                ("start_ns", &(request * 100_000_000)),
                ("status", &if tokens == 0 { "failed" } else { "ok" }),
            ]);
            for column in ["status", "latency_ns", "ttft_ns"] {
                if dice.chance(world.loss) {
                    sheet.lose(column);
                }
            }
        }
    }
}

fn experts(world: &World, dice: &mut Dice, sheets: &mut Sheets) {
    let sheet = sheets.entry("expert_loads").or_default();
    for rank in 0..world.ranks {
        for step in 0..3 {
            for layer in 0..2 {
                for expert in 0..4 {
                    sheet.add(&[
                        ("rank", &rank),
                        ("source_id", &rank),
                        ("step", &step),
                        ("layer", &layer),
                        ("expert", &expert),
                        ("load", &dice.one(&[0, 0, 1, 2, 8])),
                        ("tokens", &16),
                    ]);
                    if dice.chance(world.loss) {
                        sheet.lose("tokens");
                    }
                }
            }
        }
    }
}
