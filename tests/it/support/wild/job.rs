//! How a rank does what the plan says, as a profiler records it.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::World;
use super::dice::Dice;
use super::plan::{CALLS, Group, Item, OPS, SEED, groups, step};
use super::sheet::Sheet;

/// The tables so far.
type Sheets = BTreeMap<&'static str, Sheet>;

/// Has every rank of every profiler do its steps.
pub fn play(world: &World, sheets: &mut Sheets) {
    let mut events = 0;
    for source in world.sources {
        for rank in 0..world.ranks {
            let mut player = Player::new(world, source, rank, events, sheets);
            (0..world.steps).for_each(|number| player.step(number));
            events = player.events + 1;
        }
    }
}

/// A span of the host that is open.
struct Open {
    word: &'static str,
    layer: usize,
    start: i64,
    thread: i64,
}

/// A rank under a profiler.
struct Player<'w> {
    world: &'w World,
    source: &'static str,
    rank: i64,
    dice: Dice,
    sheets: &'w mut Sheets,
    /// The clock of the host, and when each stream is free.
    now: i64,
    free: BTreeMap<(i64, i64), i64>,
    events: i64,
    correlation: i64,
    calls: BTreeMap<String, i64>,
    thread: i64,
    open: Vec<Open>,
}

/// What a rank launches.
struct Work<'a> {
    class: &'static str,
    category: &'static str,
    name: &'a str,
    stream: i64,
    dur: i64,
    runtime: &'static str,
}

impl<'w> Player<'w> {
    fn new(
        world: &'w World,
        source: &'static str,
        rank: i64,
        events: i64,
        sheets: &'w mut Sheets,
    ) -> Self {
        let mut dice = Dice::new(&[world.number, 11, rank as u64, source.len() as u64]);
        // Clocks of ranks are apart by half a unit, in some jobs by many.
        let apart = if dice.chance(30) { 40 } else { 1 };
        let now = world.base + world.unit * dice.of(0, 2 * apart) / 2;
        let (free, calls) = (BTreeMap::new(), BTreeMap::new());
        let (correlation, thread, open) = (100 * rank, 1, Vec::new());
        Self {
            world,
            source,
            rank,
            dice,
            sheets,
            now,
            free,
            events,
            correlation,
            calls,
            thread,
            open,
        }
    }

    fn sheet(&mut self, table: &'static str) -> &mut Sheet {
        self.sheets.entry(table).or_default()
    }

    /// Whether a value is missing here.
    fn loses(&mut self) -> bool {
        self.dice.chance(self.world.loss)
    }

    /// Time passes.
    fn pass(&mut self, most: i64) {
        self.now += self.world.unit * self.dice.of(0, most);
    }

    fn device(&mut self) -> i64 {
        if self.world.ranks == 1 { self.dice.of(0, 1) } else { self.rank % 2 }
    }

    /// Adds an event of the host, of the thread in hand.
    fn host(&mut self, class: &str, category: &str, name: &str, start: i64, end: i64) -> i64 {
        self.events += 1;
        let (event, rank, source) = (self.events, self.rank, self.source);
        let (pid, thread) = (1000 + rank, self.thread);
        let lost = self.loses() && self.loses();
        let sheet = self.sheet("host_events");
        sheet.add(&[
            ("source", &source),
            ("rank", &rank),
            ("event_id", &event),
            ("class", &class),
            ("category", &category),
            ("name", &name),
            ("ts_ns", &start),
            ("dur_ns", &(end - start)),
            ("pid", &pid),
            ("tid", &thread),
        ]);
        if lost {
            sheet.lose("dur_ns");
        }
        event
    }

    /// Writes fields of the last event of the host.
    fn say(&mut self, cells: &[(&str, &dyn Display)]) {
        let sheet = self.sheet("host_events");
        cells.iter().for_each(|(column, value)| sheet.set(column, value));
    }

    /// Whether a rank of an uneven job lacks a kind of work.
    fn lacks(&self, item: Item) -> bool {
        let kind = match item {
            Item::Compute(_) => 0,
            Item::Call { .. } | Item::Gloo(_) => 2,
            Item::Copy(..) | Item::Set(_) => 3,
            _ => return false,
        };
        self.world.has("uneven") && self.rank == kind
    }

    fn step(&mut self, number: i64) {
        let start = self.now;
        for item in step(self.world, number) {
            self.pass(2);
            // A rank does not do all that the others do.
            let is_lost = self.dice.chance(self.world.loss / 3);
            if self.lacks(item) || is_lost && !matches!(item, Item::Open(..) | Item::Close) {
                continue;
            }
            self.item(item);
        }
        self.pass(2);
        if number == 0 && self.world.has("warm") {
            self.pass(100);
        }
        if self.dice.chance(40) {
            let done = self.free.values().copied().max().unwrap_or(self.now);
            self.host("host_runtime", "cuda_runtime", "cudaDeviceSynchronize", self.now, done);
            self.now = self.now.max(done);
        }
        let end = self.now;
        let unmarked = self.world.has("uneven") && self.rank == 4;
        let marker = !unmarked && self.dice.chance(100 - self.world.loss);
        match self.source {
            "kineto" if marker && !self.world.has("engine") => {
                let name = format!("ProfilerStep#{number}");
                self.host("host_annotation", "user_annotation", &name, start, end);
                if self.dice.chance(30) {
                    self.host("device_annotation", "gpu_user_annotation", &name, start, end);
                }
            }
            "nsys" | "xla" if marker => {
                let marker = if self.source == "xla" { "Steps" } else { "Step" };
                let event = self.host("host_annotation", "NVTX_EVENTS", marker, start, end);
                let (source, rank) = (self.source, self.rank);
                self.sheet("step_ranges").add(&[
                    ("source", &source),
                    ("rank", &rank),
                    ("event_id", &event),
                    ("step", &number),
                    ("ts_ns", &start),
                    ("dur_ns", &(end - start)),
                    ("marker", &marker),
                ]);
            }
            _ => {}
        }
        if self.source == "nsys" {
            let end = self.now + self.world.unit;
            self.host("other", "OSRT_API", "poll", start, end);
            for chain in ["aa", "bb", "aa"] {
                self.host("other", "COMPOSITE_EVENTS", "COMPOSITE_EVENTS", start, start);
                self.say(&[("args.callchain", &chain)]);
            }
        }
        if self.world.has("python") {
            let name = "train.py(1): step";
            self.host("python", "python_function", name, start, end);
            self.say(&[("args.callchain", &"aa")]);
        }
        // Steps lie apart, meet, or the next begins on the clock of another unit.
        self.pass(3);
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Compute(place) => self.compute(place),
            Item::Call { .. } => self.call(item),
            Item::Copy(direction, bytes) => self.copy(direction, bytes),
            Item::Set(bytes) => {
                let dur = self.world.unit * self.dice.of(0, 1);
                let (category, name) = ("gpu_memset", "Memset (Device)");
                let work = Work {
                    class: "set",
                    category,
                    name,
                    stream: 7,
                    dur,
                    runtime: "cudaMemsetAsync",
                };
                self.launch(&work);
                self.sheet("device_events").set("bytes", &bytes);
            }
            Item::Runtime(name) => {
                let end = self.now + self.world.unit * self.dice.of(0, 6);
                self.host("host_runtime", "cuda_runtime", name, self.now, end);
                self.now = end;
            }
            Item::Graph => {
                let dur = self.world.unit * self.dice.of(1, 9);
                let (category, name) = ("graph", "CUDA graph 3");
                let work = Work {
                    class: "graph",
                    category,
                    name,
                    stream: 7,
                    dur,
                    runtime: "cudaGraphLaunch",
                };
                self.launch(&work);
            }
            Item::Gloo(kind) => self.gloo(kind),
            Item::Open(word, layer) => {
                let (start, thread) = (self.now, self.thread);
                self.open.push(Open { word, layer, start, thread });
                self.pass(1);
            }
            Item::Close => self.close(),
            Item::Thread(thread) => self.thread = thread,
        }
    }

    /// Records a span that ends, by what it is of.
    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.pass(1);
        let layer = open.layer;
        let bare = self.dice.chance(20);
        let of_layer = if bare { String::new() } else { format!(" (layers.{layer})") };
        let name = match open.word {
            "loader" => "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__".to_owned(),
            "zero_grad" => "Optimizer.zero_grad#SGD.zero_grad".to_owned(),
            "forward" if bare => "## forward ##".to_owned(),
            "forward" => "DistributedDataParallel.forward".to_owned(),
            "layer" => format!("layers.{layer}"),
            "stage" => format!("PP:{layer}F{}", self.rank),
            "optimizer" => "Optimizer.step#AdamW.step".to_owned(),
            "prefetch" => format!("FSDP::backward_prefetch for layers.{layer}"),
            "tensor_parallel" => "tensor_parallel".to_owned(),
            "bucket" => "torch.distributed.ddp.reducer::copy_bucket_to_grad".to_owned(),
            "accumulate" => {
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad".to_owned()
            }
            "root_post_backward_callback" => "FSDP::root_post_backward_callback".to_owned(),
            "evaluate" => "autograd::engine::evaluate_function: AddmmBackward0".to_owned(),
            "engine" if layer == 0 => "execute_context_2(700)_generation_0(0)".to_owned(),
            "engine" if layer % 3 == 1 => "step[DECODE bs=16]".to_owned(),
            "engine" => format!("execute_context_0(0)_generation_{layer}({layer})"),
            word => format!("FSDP::{word}{of_layer}"),
        };
        let [class, category] = match open.word {
            "evaluate" | "bucket" | "accumulate" => ["host_op", "cpu_op"],
            _ if self.source == "nsys" => ["host_annotation", "NVTX_EVENTS"],
            _ => ["host_annotation", "user_annotation"],
        };
        let thread = std::mem::replace(&mut self.thread, open.thread);
        self.host(class, category, &name, open.start, self.now);
        self.thread = thread;
    }

    /// Records a call of the runtime and what it launched; gives the event of the device.
    fn launch(&mut self, work: &Work<'_>) -> i64 {
        let unit = self.world.unit;
        // Of one rank of an uneven job no time passes on a device.
        let is_still = self.world.has("uneven") && self.rank == 1;
        let dur = if is_still { 0 } else { work.dur };
        self.correlation += 1;
        let correlation = self.correlation;
        let (device, start) = (self.device(), self.now);
        self.pass(2);
        let linked = !self.loses();
        if self.source != "xla" {
            let category =
                if self.source == "nsys" { "CUPTI_ACTIVITY_KIND_RUNTIME" } else { "cuda_runtime" };
            self.host("host_runtime", category, work.runtime, start, self.now);
            self.say(&[("correlation", &correlation)]);
        }
        let free = self.free.get(&(device, work.stream)).copied().unwrap_or(self.now);
        let begin =
            (start + unit * self.dice.of(0, 4)).max(free) + unit * self.dice.one(&[0, 0, 1, 3]);
        self.free.insert((device, work.stream), begin + dur);
        self.events += 1;
        let (event, rank, source) = (self.events, self.rank, self.source);
        let of_xla = source == "xla";
        let category = if of_xla { "XLA Ops" } else { work.category };
        let lost =
            ["device", "stream", "context"].map(|column| (column, self.loses() && self.loses()));
        let sheet = self.sheet("device_events");
        sheet.add(&[
            ("source", &source),
            ("rank", &rank),
            ("event_id", &event),
            ("class", &work.class),
            ("category", &category),
            ("name", &work.name),
            ("ts_ns", &begin),
            ("dur_ns", &dur),
            ("device", &device),
            ("stream", &work.stream),
            ("context", &(1 + device)),
            ("correlation", &correlation),
        ]);
        if !linked {
            sheet.lose("correlation");
        }
        for (column, _) in lost.iter().filter(|(_, lost)| *lost) {
            sheet.lose(column);
        }
        if of_xla {
            let [ts, dur] = [self.dice.of(0, 1) * 500, self.dice.of(0, 2) * 250];
            self.sheet("device_events").set("ts_ps", &ts);
            self.sheet("device_events").set("dur_ps", &dur);
        }
        event
    }

    fn compute(&mut self, place: usize) {
        // In some jobs one operator does most.
        let alone = self.world.has("python") && place != SEED && self.dice.chance(75);
        let op = &OPS[if alone { 0 } else { place }];
        let start = self.now;
        self.pass(1);
        let (category, runtime) = ("kernel", "cudaLaunchKernel");
        let longest = if self.world.has("warm") { 30 } else { 10 };
        let dur = self.world.unit * self.dice.one(&[0, 1, 1, 2, 5, longest]);
        let stream = self.dice.one(&[7, 7, 7, 24]);
        let name = if self.source == "xla" { op.hlo.1 } else { op.kernel };
        self.launch(&Work { class: "compute", category, name, stream, dur, runtime });
        self.shape(op.hlo);
        if self.dice.chance(20) {
            // Some operators launch several.
            let name = "void at::native::elementwise_kernel<128, 4>";
            self.launch(&Work { class: "compute", category, name, stream, dur, runtime });
        }
        self.pass(1);
        if self.source == "xla" {
            return;
        }
        self.host("host_op", "cpu_op", op.name, start, self.now);
        if self.world.has("et") {
            self.node(op.name, op.dims);
        }
        if self.world.has("shapes") {
            for (key, value) in [
                ("args.Input Dims", op.dims),
                ("args.Input type", op.types),
                ("args.Concrete Inputs", op.concrete),
            ] {
                if !value.is_empty() && !self.loses() {
                    self.say(&[(key, &value)]);
                }
            }
        }
    }

    /// Writes the shape of the last kernel.
    fn shape(&mut self, (category, hlo): (&str, &str)) {
        let blocks = self.dice.one(&[0, 1, 66, 132, 264]);
        let [registers, shared] = [self.dice.one(&[32, 255]), self.dice.one(&[0, 49152])];
        let warps = self.dice.one(&[4, 8, 64]);
        let [flops, bytes] = [1000 * self.dice.of(0, 3), self.dice.one(&[0, 100, 4000])];
        let (of_xla, lost) = (self.source == "xla", self.loses());
        let sheet = self.sheet("device_events");
        let mut cells: Vec<(&str, &dyn Display)> = vec![
            ("grid_x", &blocks),
            ("grid_y", &1),
            ("grid_z", &1),
            ("block_x", &128),
            ("block_y", &1),
            ("block_z", &1),
            ("registers", &registers),
            ("shared_memory", &shared),
            ("warps_per_sm", &warps),
        ];
        let per_sm = blocks as f64 / 132.0;
        let occupancy = 25 * (warps / 8);
        if of_xla {
            cells = vec![
                ("hlo_category", &category),
                ("hlo_op", &hlo),
                ("hlo_module", &"jit_step(1)"),
                ("flops", &flops),
                ("bytes_accessed", &bytes),
            ];
        } else if !lost {
            cells.extend([
                ("blocks_per_sm", &per_sm as &dyn Display),
                ("occupancy_pct", &occupancy),
            ]);
        }
        cells.iter().for_each(|(column, value)| sheet.set(column, value));
    }

    fn copy(&mut self, direction: &str, bytes: i64) {
        let start = self.now;
        let dur = self.world.unit * self.dice.of(0, 4);
        let name = format!("Memcpy {direction}");
        let (category, runtime) = ("gpu_memcpy", "cudaMemcpyAsync");
        let stream = self.dice.one(&[7, 20]);
        self.launch(&Work { class: "copy", category, name: &name, stream, dur, runtime });
        if !self.loses() {
            self.sheet("device_events").set("bytes", &bytes);
        }
        if self.source != "xla" {
            self.host("host_op", "cpu_op", "aten::copy_", start, self.now);
        }
    }

    fn call(&mut self, item: Item) {
        let Item::Call { kind, group, elems, dtype, beside } = item else { return };
        let [name, kernel, op, annotation, hlo] = CALLS[kind];
        let group = groups(self.world, self.rank)[group].clone();
        let seq = self.calls.entry(group.name.clone()).or_default();
        *seq += 1;
        let seq = *seq;
        let start = self.now;
        let size = elems / 100_000 + self.dice.of(1, 4);
        let dur = self.world.unit * size.min(60);
        let of_xla = self.source == "xla";
        let stream = if beside { 20 } else { 7 };
        let work = Work {
            class: "comm",
            category: "kernel",
            name: if of_xla { hlo } else { kernel },
            stream,
            dur,
            runtime: "cudaLaunchKernelExC",
        };
        let event = self.launch(&work);
        if of_xla {
            self.shape((hlo, hlo));
        }
        let spread = group.ranks.len() as i64;
        let [sent, received] = match name {
            "_allgather_base" => [elems, elems * spread],
            "_reduce_scatter_base" => [elems * spread, elems],
            // Some ranks say another size.
            _ if self.dice.chance(self.world.loss / 2) => [elems + 1, elems],
            _ => [elems; 2],
        };
        let said = Said { name, dtype, sizes: [sent, received], group: &group, seq, hlo };
        self.says_call(event, &said);
        if !of_xla && !self.loses() {
            self.surround(start, [op, annotation], &said);
        }
    }

    /// Records the operators around a call, with what they say of it.
    fn surround(&mut self, start: i64, [op, annotation]: [&str; 2], said: &Said<'_>) {
        let [sent, received] = said.sizes;
        let (one, two) = (format!("[[{sent}]]"), format!("[[{received}], [{sent}]]"));
        if self.dice.chance(60) {
            self.host("host_op", "cpu_op", "record_param_comms", start, self.now);
            if self.world.number.is_multiple_of(3) || self.dice.chance(self.world.loss) {
                self.say(&[
                    ("args.Collective name", &said.name),
                    ("args.dtype", &said.dtype),
                    ("args.In msg nelems", &sent),
                    ("args.Out msg nelems", &received),
                    ("args.Group size", &said.group.ranks.len()),
                ]);
            }
            if self.world.has("et") {
                self.say(&[("args.Input Dims", &one)]);
                self.node("record_param_comms", &one);
                self.node_says(said);
            }
        }
        self.host("host_op", "cpu_op", op, start, self.now);
        if self.world.has("shapes") {
            self.say(&[("args.Input Dims", &two)]);
            self.say(&[("args.Input type", &"[\"float\", \"c10::Half\"]")]);
        }
        let name = format!("nccl:{annotation}");
        self.host("host_annotation", "user_annotation", &name, start, self.now);
        if self.world.has("shapes") && self.dice.chance(60) {
            self.say(&[("args.Input Dims", &one), ("args.Input type", &"[\"c10::BFloat16\"]")]);
        }
    }

    /// Records a call of gloo.
    fn gloo(&mut self, kind: &str) {
        let start = self.now;
        self.now += self.world.unit * self.dice.of(0, 4);
        let dims = self.dice.one(&["[[1000]]", "[[10, 10]]", "[[0]]", "[]", "[[[2, 3], [4]]]"]);
        let name = format!("gloo:{kind}");
        self.host("host_annotation", "user_annotation", &name, start, self.now);
        if !self.loses() {
            self.say(&[("args.Input Dims", &dims), ("args.Input type", &"[\"float\"]")]);
        }
    }

    /// Says a call of an event, as its profiler does.
    fn says_call(&mut self, event: i64, said: &Said<'_>) {
        let Said { name, dtype, sizes: [sent, received], group, seq, hlo } = *said;
        let (rank, members) = (self.rank, group.ranks.len() as i64);
        let ranks: Vec<String> = group.ranks.iter().map(i64::to_string).collect();
        let ranks = format!("[{}]", ranks.join(", "));
        let peer = group.ranks[(self.dice.below(members as u64)) as usize];
        let part = sent / members;
        let split: Vec<String> = (0..members).map(|n| (part + n % 2).to_string()).collect();
        let split = format!("[{}]", split.join(","));
        let bytes = [sent, received].map(|elems| 4 * elems);
        let lost = self.loses() || self.world.has("shapes") && self.dice.chance(25);
        let is_split = name == "all_to_allv";
        let nccl = self.dice.one(&["nvtx_payload", "nvtx_range"]);
        if self.source == "kineto" {
            let desc = group.desc;
            let mut cells: Vec<(&str, &dyn Display)> = vec![
                ("args.Collective name", &name),
                ("args.dtype", &dtype),
                ("args.In msg nelems", &sent),
                ("args.Out msg nelems", &received),
                ("args.Group size", &members),
                ("args.Process Group Name", &group.name),
                ("args.Process Group Description", &desc),
                ("args.Process Group Ranks", &ranks),
                ("args.Seq", &seq),
            ];
            match name {
                "send" => cells.push(("args.Dst Rank", &peer)),
                "recv" => cells.push(("args.Src Rank", &peer)),
                _ => {}
            }
            if is_split {
                cells.extend([
                    ("args.In split size", &split as &dyn Display),
                    ("args.Out split size", &split),
                ]);
            }
            // Older versions say nothing, some no group, others no number.
            let kept = self.dice.one(&[0, 5, 8, cells.len(), cells.len(), cells.len()]);
            let kept = if lost { kept } else { cells.len() };
            let sheet = self.sheet("device_events");
            cells.iter().take(kept).for_each(|(column, value)| sheet.set(column, value));
            return;
        }
        if lost {
            return;
        }
        let of_xla = self.source == "xla";
        let coll_source = if of_xla { "hlo" } else { nccl };
        let place = group.ranks.iter().position(|r| *r == rank).unwrap_or_default();
        let (name, dtype) = if of_xla { (hlo, "f32") } else { (name, dtype) };
        let stall = self.world.unit * self.dice.of(0, 2);
        let sheet = self.sheets.entry("comm_args").or_default();
        sheet.add(&[
            ("rank", &rank),
            ("event_id", &event),
            ("collective_name", &name),
            ("dtype", &dtype),
            ("in_elems", &sent),
            ("out_elems", &received),
            ("group_size", &members),
            ("pg_name", &group.name),
            ("pg_ranks", &ranks),
            ("in_bytes", &bytes[0]),
            ("out_bytes", &bytes[1]),
            ("coll_source", &coll_source),
            ("group_rank", &place),
        ]);
        if of_xla {
            sheet.set("stall_ns", &stall);
        } else if is_split {
            sheet.set("in_split", &split);
        }
        if coll_source == "nvtx_range" {
            ["in_bytes", "out_bytes", "in_elems", "out_elems"].iter().for_each(|c| sheet.lose(c));
        }
    }

    /// Says the last operator in an execution trace, too.
    fn node(&mut self, name: &str, dims: &str) {
        let (event, rank) = (self.events, self.rank);
        let number = event + 5000;
        // Newer versions say the same number on both sides; each may say its own process.
        if self.world.has("ids") {
            self.say(&[("args.Record function id", &number)]);
        }
        let (pid, thread) = (1000 + rank, self.thread);
        let (lost, strange) = (self.loses(), self.loses());
        let sheet = self.sheets.entry("et_nodes").or_default();
        sheet.add(&[
            ("rank", &rank),
            ("source_id", &rank),
            ("node_id", &event),
            ("name", &name),
            ("rf_id", &number),
            ("scope", &0),
            ("tid", &thread),
            ("pid", &if strange { 1 } else { pid }),
            ("input_shapes", &dims),
        ]);
        if lost {
            sheet.lose("pid");
        }
    }

    /// Writes a call into the last node.
    fn node_says(&mut self, said: &Said<'_>) {
        let lost = ["dtype", "in_elems", "rank_stride", "pg_name"].map(|c| (c, self.loses()));
        let members = &said.group.ranks;
        let stride = members.get(1).map_or(1, |second| second - members[0]);
        let sheet = self.sheets.entry("et_nodes").or_default();
        let cells: [(&str, &dyn Display); 10] = [
            ("collective_name", &said.name),
            ("dtype", &said.dtype),
            ("in_elems", &said.sizes[0]),
            ("out_elems", &said.sizes[1]),
            ("group_size", &members.len()),
            ("pg_name", &said.group.name),
            ("pg_desc", &said.group.desc),
            ("rank_start", &members[0]),
            ("rank_stride", &stride),
            ("seq", &said.seq),
        ];
        cells.iter().for_each(|(column, value)| sheet.set(column, value));
        lost.iter().filter(|(_, lost)| *lost).for_each(|(column, _)| sheet.lose(column));
    }
}

/// What is said of a call.
#[derive(Clone, Copy)]
struct Said<'a> {
    name: &'a str,
    dtype: &'a str,
    sizes: [i64; 2],
    group: &'a Group,
    seq: i64,
    hlo: &'a str,
}
