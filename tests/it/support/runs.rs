//! Small runs for reports and comparisons: steps with one kernel and one all-reduce each, written
//! as PyTorch's profiler writes them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Place;

/// A name that would do something in a terminal, a page, a document or a workbook.
pub const HOSTILE: &str = "=cmd|'/C calc'!A0 <script>alert(\"x\")</script> [l](http://evil) a@b.c\u{1b}[31m\u{202e}\n| ü漢 ";

/// The shape of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Ranks.
    pub ranks: usize,
    /// Length of a step; the rest follows from it.
    pub step_us: f64,
    /// Whether the host marks its steps.
    pub steps: bool,
    /// Whether the ranks communicate.
    pub comm: bool,
    /// Name of the compute kernel.
    pub kernel: &'a str,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { ranks: 2, step_us: 1000.0, steps: true, comm: true, kernel: "gemm" }
    }
}

/// Writes `torch_profiler/rank*/trace.json` into the folder of a run.
pub fn write(folder: &Path, plan: &Plan<'_>) {
    for rank in 0..plan.ranks {
        let place = folder.join(format!("torch_profiler/rank{rank}"));
        std::fs::create_dir_all(&place).expect("the folder can be made");
        let text = trace(rank, plan).to_string();
        std::fs::write(place.join("trace.json"), text).expect("the file can be written");
    }
}

fn trace(rank: usize, plan: &Plan<'_>) -> Value {
    let mut events = Vec::new();
    for step in 0..4_u32 {
        let start = 1_000_000.0 + f64::from(step) * plan.step_us;
        if plan.steps {
            events.push(json!({"ph": "X", "cat": "user_annotation", "pid": 100, "tid": 100,
                "name": format!("ProfilerStep#{step}"), "ts": start, "dur": plan.step_us}));
        }
        events.push(json!({"ph": "X", "cat": "kernel", "name": plan.kernel, "pid": rank, "tid": 7,
            "ts": start + 10.0, "dur": plan.step_us / 2.0,
            "args": {"stream": 7, "device": rank, "correlation": step * 10 + 1}}));
        if plan.comm {
            let elements = 1_048_576 * (step + 1);
            let ranks: Vec<usize> = (0..plan.ranks).collect();
            events.push(json!({"ph": "X", "cat": "kernel", "pid": rank, "tid": 8,
                "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                "ts": start + 0.4 * plan.step_us, "dur": 0.3 * plan.step_us,
                "args": {"stream": 8, "device": rank, "correlation": step * 10 + 2,
                    "Collective name": "allreduce", "In msg nelems": elements,
                    "Out msg nelems": elements, "Group size": plan.ranks, "dtype": "Float",
                    "Process Group Name": "0", "Process Group Ranks": format!("{ranks:?}")}}));
        }
    }
    json!({"schemaVersion": 1,
        "distributedInfo": {"rank": rank, "world_size": plan.ranks, "backend": "nccl"},
        "deviceProperties": [{"id": rank, "name": "NVIDIA H100\u{1b}[31m", "numSms": 132}],
        "traceEvents": events})
}

/// Writes the job `job` of two ranks: a kernel of compute and one of communication each.
pub fn two_ranks(place: &Place) {
    for rank in 0..2 {
        let event = |name: &str, ts: i64| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":{rank},"tid":7,"ts":{ts},"dur":2,"args":{{"device":{rank},"stream":7}}}}"#
            )
        };
        let events = [event("gemm", 10), event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20)];
        let events = events.join(",");
        let text = format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{events}]}}"#
        );
        place.write(&format!("job/rank{rank}.json"), text);
    }
}

/// A rank with one step of 1 ms: a kernel after 100 us, and a call of 200 us at `call_us`.
pub fn step_of_rank(rank: i64, world: i64, compute_us: i64, call_us: i64) -> String {
    format!(
        r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{world}}},"traceEvents":[
{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":1000,"dur":1000}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":{rank},"tid":7,"ts":1100,"dur":{compute_us},"args":{{"device":{rank},"stream":7}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":{rank},"tid":20,"ts":{call_us},"dur":200,"args":{{"device":{rank},"stream":20,"Collective name":"allreduce","dtype":"Float","In msg nelems":250000,"Out msg nelems":250000,"Group size":2}}}}
]}}
"#
    )
}

/// A rank of two with so many calls and nothing else, one of 5 us each 10 us.
pub fn many_calls(rank: usize, calls: usize) -> String {
    let call = |n: usize| {
        let (ts, kind) = (n * 10 + rank, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{kind}","pid":0,"tid":7,"ts":{ts},"dur":5,"args":{{"device":0,"stream":7}}}}"#
        )
    };
    let calls: Vec<String> = (0..calls).map(call).collect();
    let about = format!(r#"{{"rank":{rank},"world_size":2}}"#);
    format!(r#"{{"distributedInfo":{about},"traceEvents":[{}]}}"#, calls.join(","))
}

/// A rank with so many kernels, one of 5 us each 10 us. A step takes 10 ms. Its call ends with the
/// step, and takes 40 us on the first rank, and 10 us less on each further one.
pub fn many_kernels(rank: usize, world: usize, kernels: usize) -> String {
    const OF_STEP: usize = 1000;
    let mut out = format!(
        "{{\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":{world}}},\n\
         \"traceEvents\":[\n"
    );
    for n in 0..kernels {
        let ts = 10 * n;
        if n % OF_STEP == 0 {
            let step = n / OF_STEP;
            let wait = 40 - 10 * rank;
            let begin = ts + 10 * OF_STEP - wait;
            let _ = write!(
                out,
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{ts},"dur":10000}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":{rank},"tid":20,"ts":{begin},"dur":{wait},"args":{{"device":{rank},"stream":20,"Collective name":"allreduce","dtype":"Float","In msg nelems":250000,"Out msg nelems":250000,"Group size":{world}}}}},
"#
            );
        }
        let end = if n + 1 == kernels { "\n]}\n" } else { ",\n" };
        let _ = write!(
            out,
            r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":{rank},"tid":7,"ts":{ts},"dur":5,"args":{{"device":{rank},"stream":7}}}}{end}"#
        );
    }
    out
}

/// Whether nothing in a text steers a terminal or turns its direction.
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c))
}

/// The parts of a workbook by name.
pub fn parts(book: &Path) -> std::collections::BTreeMap<String, String> {
    let file = std::fs::File::open(book).expect("the workbook is there");
    let mut archive = zip::ZipArchive::new(file).expect("a workbook is an archive");
    (0..archive.len())
        .map(|i| {
            let mut part = archive.by_index(i).expect("the part can be read");
            let text = std::io::read_to_string(&mut part).expect("the parts are text");
            (part.name().expect("the parts have names").into_owned(), text)
        })
        .collect()
}

/// Holds a workbook to its promise: text stays text, nothing leaves it.
pub fn assert_inert(parts: &std::collections::BTreeMap<String, String>) {
    for (name, text) in parts {
        let forbidden = ["<f>", "<f ", "<hyperlink", "externalLink", "<script"];
        let found = forbidden.iter().find(|f| text.contains(**f));
        assert!(found.is_none(), "{name} holds {found:?}");
    }
}
