//! JSON records of benchmarks of inference, and logs of the gates of a mixture of experts.
//!
//! In: JSON objects one after the other. Out: rows of `benchmarks`, `requests` and `expert_loads`.
//! Which objects are records: `kind`; their fields: `fields`.
//!
//! Fields, from the sources of the tools: `vllm bench serve` (vllm/benchmarks/serve.py; before 2025
//! benchmarks/benchmark_serving.py), `vllm bench latency` and `vllm bench throughput`
//! (vllm/benchmarks/latency.py, throughput.py), SGLang (python/sglang/bench_serving.py).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::Result;
use crate::input::json::elements_of;
use crate::readers::bench::fields::{
    Fields, List, Reader, TEXTS, Value, args, count, cut, model_of_server, number, odd, text, time,
};
use crate::readers::bench::kind::{Kind, LOADS, OF_TRACES, kind_of};
use crate::readers::bench::stream::Stream;
use crate::readers::contract::{Answer, Kind as Format, Reading};
use crate::readers::document::{Failure, Words};
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::schema::table;
use crate::spool::parquet::TableWriter;
use crate::spool::totals::Totals;

/// Gaps between the tokens of a request that are kept.
const MAX_GAPS: usize = 1 << 20;
/// Bytes of the text of an error that are kept.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Fields with a column of their own, or of which columns are made.
const COUNTS: [&[&str]; 6] = [
    &["num_prompts", "num_requests"],
    &["max_concurrency"],
    &["completed"],
    &["failed"],
    &["total_input_tokens"],
    &["total_output_tokens"],
];
const RATES: [&[&str]; 3] = [
    &["request_throughput", "requests_per_second"],
    &["output_throughput"],
    &["total_token_throughput", "total_throughput", "tokens_per_second"],
];
/// Statistics of latencies in milliseconds: kinds, then what SGLang calls the last one.
const STATISTICS: [&str; 4] = ["mean", "median", "std", "p99"];
const LATENCIES: [&[&str]; 4] = [&["ttft"], &["tpot"], &["itl"], &["e2el", "e2e_latency"]];
const BACKEND: &[&str] = &["backend", "endpoint_type"];
const MODEL: &[&str] = &["model_id", "model"];
const DURATION: &[&str] = &["duration", "elapsed_time"];
const LAYER: &[&str] = &["layer", "layer_id", "layer_idx", "layer_index"];

const RECORDS: Words = Words {
    element: "record",
    again: "run the benchmark again, or copy the file again",
    keep: "run the benchmark again, or keep the records before it with --keep-partial",
    no_colon: None,
};

struct Writing<'r> {
    reading: &'r Reading<'r>,
    benchmarks: TableWriter,
    requests: TableWriter,
    loads: TableWriter,
    log: Log,
    totals: Totals,
    /// Records of the file.
    records: i64,
    /// Steps of the logs of gates in the file.
    steps: i64,
    /// Gaps of the request in hand.
    gaps: Vec<i64>,
}

/// Reads every record; what the file is, where it holds none.
///
/// # Errors
/// `json-invalid`, `trace-truncated`; `io`.
pub(super) fn read(
    reading: &Reading<'_>,
    reader: Box<dyn Read + Send>,
    folder: &Path,
) -> Result<Result<Share, Answer>> {
    let writer = |name: &str| {
        let path = folder.join(format!("{name}.parquet"));
        // The name of a log of gates may say a rank; a benchmark is of none.
        let without: &[&str] = if name == "expert_loads" { &[] } else { &["rank"] };
        TableWriter::new(table(name).expect("the table is in the schema"), without, path)
    };
    let mut writing = Writing {
        reading,
        benchmarks: writer("benchmarks"),
        requests: writer("requests"),
        loads: writer("expert_loads"),
        log: Log::default(),
        totals: Totals::default(),
        records: 0,
        steps: 0,
        gaps: Vec::new(),
    };
    let mut stream = Stream::new(reader);
    let mut objects = 0u64;
    let mut read = 0u64;
    // Where the object in hand begins.
    let mut at = 0;
    let failure = loop {
        let is_first = objects == 0;
        at = match stream.begins(is_first) {
            Ok(Some(at)) => at,
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        };
        match stream.object(is_first, folder, &mut writing.log) {
            Ok(None) => return Ok(Err(Answer::Is(Format::Json))),
            Ok(Some(fields)) => {
                read += u64::from(writing.object(fields, at)?);
                objects += 1;
            }
            Err(failure) => break Some(failure),
        }
    };
    match failure {
        None => {}
        Some(Failure::Error(error)) => return Err(error),
        Some(Failure::Fault(fault)) if read > 0 && reading.keep_partial && fault.is_partial() => {
            writing.log.add(Severity::Error, fault.code, Some(at), || {
                format!("{}; records before it, which are kept: {read}", fault.message)
            });
            stream.drain();
        }
        Some(Failure::Fault(fault)) => {
            let complete = (read > 0).then_some(read);
            let is_large = fault.code == "value-too-large";
            let error = fault.error(&reading.place.display(), &RECORDS, complete);
            return Err(match is_large {
                true => error.hint("write it without the details of each request"),
                false => error,
            });
        }
    }
    if read == 0 {
        let what = "JSON without the fields of a benchmark record".to_owned();
        return Ok(Err(Answer::Other(what)));
    }
    if read < objects {
        writing.totals.skipped += objects - read;
        writing.log.add_many(Severity::Loss, "bench-record", objects - read, None, || {
            "objects among the records of a benchmark that are none; left out".to_owned()
        });
    }
    let mut spool = BTreeMap::new();
    for (name, writer) in [
        ("benchmarks", writing.benchmarks),
        ("requests", writing.requests),
        ("expert_loads", writing.loads),
    ] {
        spool.extend(writer.finish()?.map(|path| (name, path)));
    }
    let bytes = stream.offset();
    let (totals, log) = (writing.totals, writing.log);
    Ok(Ok(Share { totals, log, spool, bytes, ..Share::default() }))
}

impl Writing<'_> {
    /// Writes an object; whether it is a record.
    fn object(&mut self, mut fields: Fields, offset: u64) -> Result<bool> {
        let kind = kind_of(|name| fields.has(name));
        let is_loads = fields.has(LOADS) && !OF_TRACES.iter().any(|name| fields.has(name));
        if is_loads {
            self.gates(&mut fields, offset)?;
        }
        match kind {
            Some(kind) => self.record(kind, fields, offset).map(|()| true),
            None => Ok(is_loads),
        }
    }

    /// Writes the row of a record, and those of its requests.
    fn record(&mut self, kind: Kind, mut fields: Fields, offset: u64) -> Result<()> {
        let record = self.records;
        self.records += 1;
        self.totals.events += 1;
        let mut batches = None;
        let mut of_batches: [Option<f64>; 4] = [None; 4];
        let mut requests = 0;
        if kind == Kind::Latency {
            batches = fields.list("latencies").map(|list| self.times(list, offset)).transpose()?;
            let percentiles = fields.raw("percentiles");
            let percentile = |name: &str| -> Option<Vec<u8>> {
                let raw = std::str::from_utf8(percentiles?).ok()?;
                let value: BTreeMap<String, serde_json::Value> = serde_json::from_str(raw).ok()?;
                Some(value.get(name)?.to_string().into_bytes())
            };
            let raw = [
                fields.raw("avg_latency").map(<[u8]>::to_vec),
                percentile("50"),
                fields.raw("std_latency").map(<[u8]>::to_vec),
                percentile("99"),
            ];
            let mut reader = Reader { log: &mut self.log, offset };
            for (to, raw) in of_batches.iter_mut().zip(raw) {
                // Seconds to milliseconds.
                *to = reader.value(raw.as_deref(), number).map(|s| s * 1e3);
            }
        } else {
            requests = self.requests(&mut fields, record, offset)?;
        }
        let mut left_out: Option<i64> = None;
        for name in TEXTS {
            if let Some(Value::Texts(texts)) = fields.of.remove(name) {
                left_out = Some(left_out.unwrap_or_default() + texts);
            }
        }
        let mut reader = Reader { log: &mut self.log, offset };
        let model = fields.take(MODEL).map(|raw| text(&raw));
        let model = model.or_else(|| model_of_server(fields.raw("server_info")?));
        let backend = fields.take(BACKEND).map(|raw| text(&raw));
        let rate = fields.take(&["request_rate"]).map(|raw| match text(&raw).as_str() {
            "Infinity" => "inf".to_owned(),
            rate => rate.to_owned(),
        });
        let duration = reader.value(fields.take(DURATION).as_deref(), time);
        let counts = COUNTS.map(|names| reader.value(fields.take(names).as_deref(), count));
        let rates = RATES.map(|names| reader.value(fields.take(names).as_deref(), number));
        let mut latencies = [[None; 4]; 4];
        for (names, to) in LATENCIES.iter().zip(&mut latencies) {
            for (statistic, to) in STATISTICS.iter().zip(to) {
                let names = names.iter().map(|name| format!("{statistic}_{name}_ms"));
                let names: Vec<String> = names.collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                *to = reader.value(fields.take(&names).as_deref(), number);
            }
        }
        if kind == Kind::Latency {
            latencies[3] = of_batches;
        }
        let args = args(fields, &mut self.log, offset);
        let w = self.benchmarks.row();
        w.int(Some(self.reading.source_id)).int(Some(record)).text(Some(kind.word()));
        w.text(backend.as_deref()).text(model.as_deref()).int(duration).text(rate.as_deref());
        counts.iter().for_each(|value| _ = w.int(*value));
        rates.iter().for_each(|value| _ = w.double(*value));
        latencies.iter().flatten().for_each(|value| _ = w.double(*value));
        w.ints(batches.flatten().as_deref()).int(Some(requests)).int(left_out);
        w.text(args.as_deref());
        self.benchmarks.end_row()
    }

    /// Times of a list; None where one of them is no usable number, or where they are too many.
    fn times(&mut self, mut list: List, offset: u64) -> Result<Option<Vec<i64>>> {
        let mut out = Vec::new();
        while let Some(raw) = list.next()? {
            if out.len() == MAX_GAPS {
                self.long_list(offset);
                return Ok(None);
            }
            match time(raw) {
                Some(ns) => out.push(ns),
                None => {
                    odd(&mut self.log, offset);
                    return Ok(None);
                }
            }
        }
        Ok(Some(out))
    }

    fn long_list(&mut self, offset: u64) {
        self.log.add(Severity::Loss, "bench-list", Some(offset), || {
            format!("lists of more than {MAX_GAPS} times; left out")
        });
    }

    /// Writes a row for each request that the lists of a record hold, side by side; how many.
    fn requests(&mut self, fields: &mut Fields, record: i64, offset: u64) -> Result<i64> {
        const LISTS: [&str; 7] =
            ["input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors"];
        let mut lists = LISTS.map(|name| fields.list(name));
        let mut lengths = [0i64; LISTS.len()];
        let mut request = 0;
        loop {
            let mut raw: [Option<&[u8]>; LISTS.len()] = [None; LISTS.len()];
            for (raw, list) in raw.iter_mut().zip(lists.iter_mut().map(Option::as_mut)) {
                *raw = list.map_or(Ok(None), List::next)?;
            }
            if raw.iter().all(Option::is_none) {
                break;
            }
            lengths.iter_mut().zip(&raw).for_each(|(n, raw)| *n += i64::from(raw.is_some()));
            self.request([record, request], raw, offset)?;
            request += 1;
        }
        let uneven = lists.iter().zip(lengths).filter(|(list, n)| list.is_some() && *n < request);
        let uneven = uneven.count() as u64;
        self.log.add_many(Severity::Loss, "bench-lists", uneven, Some(offset), || {
            "lists of benchmark records that are shorter than others of the same record; the rest is NULL"
                .to_owned()
        });
        Ok(request)
    }

    fn request(&mut self, place: [i64; 2], raw: [Option<&[u8]>; 7], offset: u64) -> Result<()> {
        let [input, output, ttft, itl, latency, start, error] = raw;
        let mut reader = Reader { log: &mut self.log, offset };
        let tokens = [input, output].map(|raw| reader.value(raw, count));
        // 0 stands for a first token that did not come, or was not waited for.
        let ttft = reader.value(ttft, time).filter(|ns| *ns > 0);
        let latency = reader.value(latency, time).filter(|ns| *ns > 0);
        let start = reader.value(start, time);
        let gaps = self.gaps(itl, offset);
        let kept = gaps.is_some() && self.gaps.len() <= MAX_GAPS;
        // The last token came when the last gap was over.
        let last = || ttft?.checked_add(gaps?);
        let says_errors = error.is_some();
        let error = error.filter(|raw| *raw != b"null").map(text).filter(|text| !text.is_empty());
        let status = says_errors.then_some(if error.is_some() { "failed" } else { "ok" });
        let row = self.requests.row();
        row.int(Some(self.reading.source_id)).int(Some(place[0])).int(Some(place[1]));
        tokens.iter().for_each(|value| _ = row.int(*value));
        row.int(ttft).int(latency.or_else(last)).ints(kept.then_some(&self.gaps)).int(start);
        row.text(status).text(error.as_deref().map(|text| cut(text, MAX_ERROR_BYTES)));
        self.totals.events += 1;
        self.requests.end_row()
    }

    /// The gaps between the tokens of a request, in `self.gaps` (as many as are kept, and one
    /// more); their sum, where each is a usable number.
    fn gaps(&mut self, raw: Option<&[u8]>, offset: u64) -> Option<i64> {
        self.gaps.clear();
        let raw = raw.filter(|raw| *raw != b"null")?;
        if raw.first() != Some(&b'[') {
            odd(&mut self.log, offset);
            return None;
        }
        let mut sum = 0i64;
        for gap in elements_of(raw) {
            let ns = time(gap).and_then(|ns| Some((ns, sum.checked_add(ns)?)));
            let Some((ns, next)) = ns else {
                odd(&mut self.log, offset);
                return None;
            };
            sum = next;
            if self.gaps.len() <= MAX_GAPS {
                self.gaps.push(ns);
            }
        }
        if self.gaps.len() > MAX_GAPS {
            self.long_list(offset);
        }
        Some(sum)
    }

    /// Writes the loads of a log of gates: a list of steps, each a list of experts, or of layers of
    /// them.
    fn gates(&mut self, fields: &mut Fields, offset: u64) -> Result<()> {
        let Some(mut steps) = fields.list(LOADS) else {
            fields.of.remove(LOADS);
            odd(&mut self.log, offset);
            return Ok(());
        };
        let mut tokens = fields.list("num_tokens");
        let mut reader = Reader { log: &mut self.log, offset };
        let layer = reader.value(fields.take(LAYER).as_deref(), count);
        let layer = layer.or(self.reading.said.layer);
        while let Some(step) = steps.next()? {
            let number = self.steps;
            self.steps += 1;
            let mut reader = Reader { log: &mut self.log, offset };
            let tokens = tokens.as_mut().map_or(Ok(None), List::next)?;
            let tokens = reader.value(tokens, count);
            if step.first() != Some(&b'[') {
                reader.value(Some(step), |_| None::<()>);
                continue;
            }
            let mut loose = 0;
            for (place, element) in (0i64..).zip(elements_of(step)) {
                if element.first() == Some(&b'[') {
                    for (expert, raw) in (0i64..).zip(elements_of(element)) {
                        self.load([Some(number), Some(place), Some(expert), tokens], raw, offset)?;
                    }
                } else {
                    self.load([Some(number), layer, Some(loose), tokens], element, offset)?;
                    loose += 1;
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, place: [Option<i64>; 4], raw: &[u8], offset: u64) -> Result<()> {
        let load = Reader { log: &mut self.log, offset }.value(Some(raw), count);
        let [step, layer, expert, tokens] = place;
        let row = self.loads.row();
        let said = self.reading.said;
        row.int(said.first_rank.or(said.rank))
            .int(Some(self.reading.source_id))
            .int(step)
            .int(layer);
        row.int(expert).int(load).int(tokens);
        self.totals.events += 1;
        self.loads.end_row()
    }
}
