//! Kineto traces: JSON of events as PyTorch writes them, with what broken ones have.

use super::dice::Dice;

/// What holds of any text holds of these. Says whether it is one that serde_json takes.
pub fn check(data: &[u8]) -> bool {
    let made = make(&mut Dice::new(data));
    super::super::kineto(&made);
    serde_json::from_slice::<serde::de::IgnoredAny>(&made[3..]).is_ok()
}

const CATEGORIES: [&str; 14] = [
    "kernel",
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    "ac2g",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "python_function",
    "cuda_driver",
    "fwdbwd",
    "overhead",
    "Trace",
    "cpu_instant_event",
];

const NAMES: [&str; 12] = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ampere_bf16_s16816gemm_bf16_128x128",
    "record_param_comms",
    "cudaLaunchKernel",
    "ProfilerStep#2",
    "aten::mm",
    "Memcpy HtoD (Pinned -> Device)",
    "process_name",
    "process_labels",
    "nccl:all_gather",
    "train.py(12): step",
    "Iteration Start: PyTorch Profiler",
];

/// What a value of an argument is to be.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Text(&'static [&'static str]),
    Numbers,
    /// Numbers in a text, as Kineto writes them.
    Spelled,
    Nested,
}

const ARGUMENTS: [(&str, Kind); 30] = [
    ("External id", Kind::Number),
    ("correlation", Kind::Number),
    ("stream", Kind::Number),
    ("device", Kind::Number),
    ("context", Kind::Number),
    ("Collective name", Kind::Text(&["allreduce", "all_gather", "alltoallv", "send", "x"])),
    ("In msg nelems", Kind::Number),
    ("Out msg nelems", Kind::Number),
    ("In split size", Kind::Numbers),
    ("Out split size", Kind::Spelled),
    ("Group size", Kind::Number),
    ("dtype", Kind::Text(&["Float", "BFloat16", "Byte", "?"])),
    ("Process Group Name", Kind::Text(&["0", "mesh_tp", ""])),
    ("Process Group Description", Kind::Text(&["default_pg", "undefined"])),
    ("Process Group Ranks", Kind::Spelled),
    ("Rank", Kind::Number),
    ("Src Rank", Kind::Number),
    ("Dst Rank", Kind::Number),
    ("Seq", Kind::Number),
    ("grid", Kind::Numbers),
    ("block", Kind::Numbers),
    ("registers per thread", Kind::Number),
    ("shared memory", Kind::Number),
    ("bytes", Kind::Number),
    ("memory bandwidth (GB/s)", Kind::Number),
    ("Input Dims", Kind::Nested),
    ("Input type", Kind::Nested),
    ("Python id", Kind::Number),
    ("name", Kind::Text(&["python", "GPU 0", "rank 3"])),
    ("labels", Kind::Text(&["CPU", "GPU 1"])),
];

fn make(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut out = vec![dice.byte(), dice.byte(), dice.byte()];
    let mut text = String::new();
    let is_list = dice.one_in(6);
    if !is_list {
        text.push('{');
        for _ in 0..dice.below(4) {
            header(dice, &mut text);
            text.push(',');
        }
        string(dice, "traceEvents", &mut text);
        text.push(':');
    }
    text.push('[');
    for i in 0..dice.below(24) {
        if i > 0 {
            separator(dice, &mut text);
        }
        event(dice, &mut text);
    }
    if dice.one_in(20) {
        text.push(',');
    }
    text.push(']');
    if !is_list {
        for _ in 0..dice.below(3) {
            text.push(',');
            header(dice, &mut text);
        }
        text.push('}');
    }
    if dice.one_in(10) {
        text += dice.pick(&["\n", " {}", "]", "x"]);
    }
    out.extend(text.into_bytes());
    if dice.one_in(24) {
        // A byte that is no text, or a file that was cut.
        let at = 3 + dice.below(out.len() - 3);
        if dice.one_in(2) {
            out.truncate(at);
        } else {
            out[at] = dice.byte();
        }
    }
    out
}

fn separator(dice: &mut Dice<'_>, out: &mut String) {
    *out += match dice.below(1000) {
        1 => ",,",
        2 => "",
        3..=40 => " ,\r\n\t",
        _ => ",",
    };
}

/// A member beside the list of events.
fn header(dice: &mut Dice<'_>, out: &mut String) {
    match dice.below(5) {
        0 => {
            string(dice, "distributedInfo", out);
            let (rank, size) = (dice.number(), dice.number());
            *out += &format!(":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":{size}}}");
        }
        1 => {
            string(dice, "baseTimeNanoseconds", out);
            *out += &format!(":{}", dice.number());
        }
        2 => {
            string(dice, "deviceProperties", out);
            *out += ":[{\"id\":0,\"name\":\"H100\",\"totalGlobalMem\":";
            *out += &format!("{},\"numSms\":132}}]", dice.number());
        }
        3 => {
            string(dice, "schemaVersion", out);
            *out += ":1";
        }
        _ => {
            let key = dice.text();
            string(dice, &key, out);
            out.push(':');
            value(dice, 0, out);
        }
    }
}

/// An element of the list.
fn event(dice: &mut Dice<'_>, out: &mut String) {
    if dice.one_in(30) {
        return value(dice, 0, out);
    }
    let phase = dice.pick(&["X", "X", "X", "X", "X", "s", "f", "i", "M", "C", "B", "E", "t", "Q"]);
    let mut members: Vec<(&str, String)> = vec![("ph", format!("\"{phase}\""))];
    let text = |dice: &mut Dice<'_>, of: &[&str]| {
        let (mut text, mut out) = (dice.pick(of).to_owned(), String::new());
        if dice.one_in(12) {
            text = dice.text();
        }
        string(dice, &text, &mut out);
        out
    };
    members.push(("cat", text(dice, &CATEGORIES)));
    members.push(("name", text(dice, &NAMES)));
    members.push(("pid", id(dice)));
    members.push(("tid", id(dice)));
    members.push(("ts", time(dice)));
    if phase == "X" {
        members.push(("dur", time(dice)));
    }
    if matches!(phase, "s" | "f" | "t") {
        members.push(("id", id(dice)));
        members.push(("bp", "\"e\"".to_owned()));
    }
    let mut args = String::from("{");
    for i in 0..dice.below(8) {
        if i > 0 {
            args.push(',');
        }
        argument(dice, &mut args);
    }
    members.push(("args", args + "}"));
    // Members that lack, and some that come twice.
    if dice.one_in(10) {
        let lost = dice.below(members.len());
        members.remove(lost);
    }
    if dice.one_in(20) {
        let again = dice.below(members.len());
        members.push(members[again].clone());
    }
    if dice.one_in(8) {
        let by = dice.below(members.len());
        members.rotate_left(by);
    }
    out.push('{');
    for (i, (key, value)) in members.into_iter().enumerate() {
        if i > 0 {
            separator(dice, out);
        }
        string(dice, key, out);
        *out += if dice.one_in(10) { " : " } else { ":" };
        *out += &value;
    }
    if dice.one_in(1000) {
        out.push(',');
    }
    out.push('}');
}

fn argument(dice: &mut Dice<'_>, out: &mut String) {
    let (key, kind) = dice.pick(&ARGUMENTS);
    string(dice, key, out);
    out.push(':');
    if dice.one_in(10) {
        return value(dice, 0, out);
    }
    let list = |dice: &mut Dice<'_>| {
        let numbers: Vec<String> = (0..dice.below(5)).map(|_| dice.number().to_string()).collect();
        format!("[{}]", numbers.join(", "))
    };
    match kind {
        Kind::Number => *out += &dice.number().to_string(),
        Kind::Text(of) => {
            let text = dice.pick(of);
            string(dice, text, out);
        }
        Kind::Numbers => *out += &list(dice),
        Kind::Spelled => {
            let spelled = match dice.below(4) {
                0 => list(dice).replace(']', ", ...]"),
                _ => list(dice),
            };
            string(dice, &spelled, out);
        }
        Kind::Nested => {
            let (a, b) = (list(dice), list(dice));
            *out += &format!("[{a}, [], \"bf16\", {b}]");
        }
    }
}

fn id(dice: &mut Dice<'_>) -> String {
    match dice.below(8) {
        0 => format!("\"{}\"", dice.number()),
        1 => format!("\"0x{:x}\"", dice.number()),
        2 => "\"Spans\"".to_owned(),
        3 => dice.number().to_string(),
        _ => dice.below(9).to_string(),
    }
}

/// Microseconds.
fn time(dice: &mut Dice<'_>) -> String {
    let decimals = dice.below(1000);
    match dice.below(64) {
        0 => format!("\"{}.{decimals:03}\"", dice.number()),
        1 => format!("{}e{}", dice.below(100), dice.below(25)),
        2 => format!("{}.{decimals:03}", dice.number()),
        3 => dice.pick(&["-0.0", "NaN", "null", "1e400", "0.0005", "-1", "{}"]).to_owned(),
        _ => format!("{}.{decimals:03}", 1_790_000_000_000_000 + dice.below(1 << 16)),
    }
}

/// A string with its quotes; now and then with escapes that say the same, or are wrong.
fn string(dice: &mut Dice<'_>, text: &str, out: &mut String) {
    let mut quoted = serde_json::to_string(text).expect("text is JSON");
    match dice.below(1000) {
        2..=20 => {
            let first = text.chars().next().filter(char::is_ascii_alphabetic);
            let escaped = first.map(|c| format!("\"\\u{:04x}{}", u32::from(c), &quoted[2..]));
            quoted = escaped.unwrap_or(quoted);
        }
        1 => quoted.insert_str(1, dice.pick(&["\\x", "\\ud800", "\t", "\\/", "\\u00"])),
        _ => {}
    }
    *out += &quoted;
}

/// Any value.
fn value(dice: &mut Dice<'_>, depth: usize, out: &mut String) {
    match dice.below(if depth > 3 { 6 } else { 8 }) {
        0 => *out += "null",
        1 => *out += &dice.number().to_string(),
        2 => {
            let text = dice.text();
            string(dice, &text, out);
        }
        3 if dice.one_in(20) => *out += dice.pick(&["NaN", "-Infinity", "01", "nan", "1.", "-"]),
        3 => *out += dice.pick(&["true", "false"]),
        4 => *out += &format!("{:e}", Some(dice.double()).filter(|d| d.is_finite()).unwrap_or(0.5)),
        5 => *out += dice.pick(&["18446744073709551616", "1e-7", "-0", "[]", "{}"]),
        6 => {
            out.push('[');
            for i in 0..dice.below(4) {
                if i > 0 {
                    separator(dice, out);
                }
                value(dice, depth + 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for i in 0..dice.below(4) {
                if i > 0 {
                    separator(dice, out);
                }
                let key = dice.text();
                string(dice, &key, out);
                out.push(':');
                value(dice, depth + 1, out);
            }
            out.push('}');
        }
    }
}
