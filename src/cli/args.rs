//! The command line: its types, with their help.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::cli::candidates::{areas, beginning, metrics, names, traces};
use crate::cli::version;
use crate::cli::which::Which;
use crate::engine::Share;
use crate::export::select::{self, Ranks};
use crate::report::Format as Form;
use crate::report::diagnosis::LEAST_PCT;
use crate::schema::source::Source as Profiler;

/// The word of the command line for a value of an option.
pub fn word_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Embedded SQL analytics over traces of distributed LLM training and inference.
#[derive(Debug, Parser)]
#[command(
    name = "ccl-sql",
    version = version::SHORT,
    long_version = version::LONG,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Directory of the ingested traces; also in an object store, as s3://BUCKET/PREFIX
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "CCL_SQL_DATA",
        default_value = "ccl-data"
    )]
    pub data: PathBuf,
    /// Form of the result [default: by the ending of -o; else text or a table]
    #[arg(long, global = true, value_enum)]
    pub format: Option<Format>,
    /// Write the result to FILE, whole or not at all; report and compare also take a folder (DIR/)
    #[arg(short, long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over an existing output file; ingest again what is unchanged
    #[arg(short, long, global = true)]
    pub force: bool,
    /// Turn warnings and data loss into exit code 1
    #[arg(long, global = true)]
    pub strict: bool,
    /// Folder with metrics and views of your own
    #[arg(long, global = true, value_name = "DIR")]
    pub sql_dir: Option<PathBuf>,
    /// Threads, and files read at a time [default: one per core; one for `task read` and `task
    /// derive`]
    #[arg(long, global = true, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// Memory for sorting and joining, e.g. 1GB [default: 160MB to ingest, with more than two
    /// threads 100MB for each; 2GB to ask metrics and views, with more than four threads 500MB for
    /// each, and more where that is too little; else 80 % of RAM, 4GB at most with --sql-dir or
    /// --sandbox]
    #[arg(long, global = true, value_name = "SIZE", default_value = "", hide_default_value = true)]
    pub memory_limit: String,
    /// Longest that a query may take, 0 for no limit [default: none; 300 with --sql-dir]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Most that queries put on disk, e.g. 4GB [default: 16GB]
    #[arg(long, global = true, value_name = "SIZE", default_value = "", hide_default_value = true)]
    pub spill_limit: String,
    /// Folder for what is fetched of a data directory in an object store [default:
    /// ~/.cache/ccl-sql]
    #[arg(long, global = true, value_name = "DIR", env = "CCL_SQL_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Most that this folder holds of one store; what was not asked for longest goes
    #[arg(long, global = true, value_name = "SIZE", default_value = "20GB")]
    pub cache_size: String,
    /// Results only: no summary, no warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Compute every answer anew, and keep none
    #[arg(long, global = true)]
    pub no_cache: bool,
    /// Say more: every finding of an ingest
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to colour messages
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// With --format json: the fields that say most
    #[arg(long, global = true, conflicts_with = "select")]
    pub brief: bool,
    /// With --format json: these fields alone; a dot leads inside, as in details.per_rank
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub select: Vec<String>,
    /// With --format json: at most N rows, of the result and of each table inside
    #[arg(long, global = true, value_name = "N")]
    pub limit: Option<usize>,
    /// Form of errors and notes on standard error; JSON is an object a line
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value_t = ErrorForm::Text)]
    pub errors: ErrorForm,
}

/// Forms of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ErrorForm {
    /// Sentences
    Text,
    /// level, code, message, where, facts, hint
    Json,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns; one metric of one trace is a card
    Table,
    /// JSON with value, unit, details and provenance
    Json,
    /// Comma-separated values
    Csv,
    /// Parquet
    Parquet,
    /// The bare value
    Value,
    /// Text for people
    Text,
    /// Markdown
    Md,
    /// A page that needs nothing beside it (report, compare)
    Html,
    /// A workbook (report, compare)
    Xlsx,
    /// A timeline for Perfetto's viewer (export, sql)
    Perfetto,
    /// A timeline as JSON of Chrome's trace events (export, sql)
    Chrome,
}

impl Format {
    /// The form itself.
    pub fn form(self) -> Form {
        match self {
            Self::Table => Form::Table,
            Self::Json => Form::Json,
            Self::Csv => Form::Csv,
            Self::Parquet => Form::Parquet,
            Self::Value => Form::Value,
            Self::Text => Form::Text,
            Self::Md => Form::Markdown,
            Self::Html => Form::Html,
            Self::Xlsx => Form::Xlsx,
            Self::Perfetto => Form::Perfetto,
            Self::Chrome => Form::Chrome,
        }
    }
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read traces into Parquet tables
    #[command(after_help = "Example: ccl-sql ingest trace_collection/llama-tiny-fsdp2-tp2-4")]
    Ingest(IngestArgs),
    /// Cut an ingest into tasks, for many machines that share a file system
    #[command(after_help = "Example: ccl-sql plan traces --data ccl-data")]
    Plan(PlanArgs),
    /// Run a task of a plan
    #[command(after_help = "Example: ccl-sql task list \"$PLAN\"")]
    Task(TaskArgs),
    /// Compute answers and keep them: what machines of a cluster do for `--engine`
    #[command(hide = true, after_help = "Example: ccl-sql answer --trace run metric/mfu@1")]
    Answer(AnswerArgs),
    /// Compute metrics of traces
    #[command(after_help = "Example: ccl-sql metric coll_call_num --trace llama-tiny-fsdp2-tp2-4")]
    Metric(MetricArgs),
    /// Say what is wrong with a trace, and what to fix first
    #[command(
        visible_alias = "why",
        after_help = "Example: ccl-sql diagnose llama-tiny-fsdp2-tp2-4"
    )]
    Diagnose(DiagnoseArgs),
    /// Write all about a trace: text, Markdown, JSON, a page or workbooks
    #[command(after_help = "Example: ccl-sql report llama-tiny-fsdp2-tp2-4 -o report.html")]
    Report(ReportArgs),
    /// Set runs beside a baseline: table, CSV, JSON, a page or workbooks
    #[command(after_help = "Example: ccl-sql compare runs/56cu_256threads runs/37cu_384threads \
                            -o final_analysis_report.xlsx")]
    Compare(CompareArgs),
    /// Follow metrics over the runs of a series, and say where a level changes
    #[command(after_help = "Example: ccl-sql history avg_step_time --series 'nightly-*'")]
    History(HistoryArgs),
    /// Write a leaderboard over traces: a folder of pages that works from disk
    #[command(after_help = "Example: ccl-sql board -o board")]
    Board(ReportArgs),
    /// List metrics, diagnoses, traces, tables or functions
    #[command(after_help = "Example: ccl-sql list metrics")]
    List(ListArgs),
    /// Print what a metric, diagnosis, view, table, function or trace is
    #[command(after_help = "Example: ccl-sql show comm_comp_overlap")]
    Show(ShowArgs),
    /// Give a trace another name; the old one still finds it
    #[command(after_help = "Example: ccl-sql rename run_a.iteration_10 before")]
    Rename(RenameArgs),
    /// Remove traces from the data directory; the files that they were made from stay
    #[command(after_help = "Example: ccl-sql remove before after")]
    Remove(RemoveArgs),
    /// Remove what nothing names any more, in an object store or on a disk
    #[command(after_help = "Example: ccl-sql vacuum --data s3://bucket/ccl-data")]
    Vacuum(VacuumArgs),
    /// Write a timeline for Perfetto's viewer, or a database file for any DuckDB
    #[command(after_help = "Example: ccl-sql export llama-tiny-fsdp2-tp2-4 -o job.pftrace.gz")]
    Export(ExportArgs),
    /// Query the tables interactively
    #[command(after_help = "Example: ccl-sql shell")]
    Shell(ShellArgs),
    /// Run SQL on the tables
    #[command(after_help = "Example: ccl-sql sql \
                            \"SELECT collective, count(*) FROM collectives GROUP BY collective\"")]
    Sql(SqlArgs),
    /// Recompute the main figures from the raw files by a second program, and compare
    #[command(after_help = "Example: ccl-sql verify --trace llama-tiny-fsdp2-tp2-4")]
    Verify(VerifyArgs),
    /// Print what programs may rely on: tables, views, metrics, and forms of JSON
    #[command(after_help = "Example: ccl-sql schema metric")]
    Schema(SchemaArgs),
    /// Answer an agent (Model Context Protocol) on standard input and output
    #[command(after_help = "Example: ccl-sql mcp --root traces")]
    Mcp(McpArgs),
    /// Lint the SQL files of metrics and views
    #[command(after_help = "Example: ccl-sql check --sql-dir my-metrics")]
    Check(CheckArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example: ccl-sql completions bash \
                            > ~/.local/share/bash-completion/completions/ccl-sql")]
    Completions(CompletionsArgs),
    /// Print the manual page, of the program or of a command
    #[command(after_help = "Example: ccl-sql man metric | man -l -")]
    Man(ManArgs),
}

/// `R=FILE`.
fn rank_file(text: &str) -> Result<(i64, PathBuf), String> {
    let (rank, file) = text.split_once('=').ok_or("write R=FILE, e.g. 6=rank5_retry.json.gz")?;
    let rank: i64 = rank.parse().map_err(|_| format!("{rank:?} is no rank"))?;
    if rank < 0 || file.is_empty() {
        return Err("a rank is 0 or more, and the file must have a name".to_owned());
    }
    Ok((rank, PathBuf::from(file)))
}

/// `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, e.g. min_calls=5")?;
    Ok((key.replace('-', "_"), value.to_owned()))
}

/// A number of percent from 0 on, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is no number of percent"))?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("write 0 or more".to_owned()) }
}

/// Profilers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Whatever is found
    Auto,
    /// PyTorch Kineto (Chrome JSON)
    Kineto,
    /// NVIDIA Nsight Systems (SQLite exports, and reports where `nsys` is on the PATH)
    Nsys,
    /// XLA: JAX and PyTorch/XLA (XPlane, and the trace JSON made of it)
    Xla,
    /// PyTorch execution traces (torch_et_0.json)
    Et,
    /// PyTorch memory snapshots (pickles), and raw memory timelines of its profiler
    Memory,
    /// Results of inference benchmarks (vLLM, SGLang), logs of expert loads, NVLink samples
    Bench,
}

/// Options of `ingest`.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Folders or files with traces; all below a folder is looked at. Also s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX and az://CONTAINER/PREFIX
    #[arg(value_name = "PATH", required_unless_present = "rank")]
    pub paths: Vec<PathBuf>,
    /// Let the machines of a cluster do the work: ray, or ray=ADDRESS. The files and the data
    /// directory must be on a file system that they share
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<Engine>,
    /// Options of reading the traces.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What runs the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// The address of the cluster of Ray; empty for the one that Ray itself chooses.
    pub address: String,
}

/// `ray` or `ray=ADDRESS`.
fn engine(text: &str) -> Result<Engine, String> {
    match text.split_once('=').unwrap_or((text, "")) {
        ("ray", address) => Ok(Engine { address: address.to_owned() }),
        (other, _) => Err(format!("there is no engine {other:?}; write ray or ray=ADDRESS")),
    }
}

/// Options of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Folders, files or URLs with traces, as of `ingest`. -o is the folder of the plan, or its URL
    /// [default: a hidden one in the data directory]
    #[arg(value_name = "PATH", required_unless_present = "rank")]
    pub paths: Vec<PathBuf>,
    /// Options of reading the traces.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// Steps of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskStep {
    /// Print what can be done now, as JSON
    List,
    /// Read files: a task each
    Read,
    /// Say which files are one trace: one task
    Layout,
    /// Put the rows of some of the ranks into files of many ranks: a task each
    Join,
    /// Derive the tables of some of the ranks: a task each
    Derive,
    /// Say which groups and series of calls a trace has: a task each
    Groups,
    /// Give the calls of some of the ranks their places in these: a task each
    Place,
    /// Say which calls of the ranks of a trace are one: a task each
    Match,
    /// Put together what is known of the calls of some of the ranks: a task each
    Collect,
    /// Derive what crosses ranks, and put the traces in their places: one task
    Finish,
}

/// Options of `task`.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// Step of the plan
    #[arg(value_enum)]
    pub step: TaskStep,
    /// Folder or URL of the plan
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Number of the task, or I/M for a share of all: 0/4 to 3/4 are all of four shares [default:
    /// all that are open]
    #[arg(value_name = "N", value_parser = Which::parse)]
    pub which: Option<Which>,
}

/// Options of reading traces: of `ingest`, and of the commands that are given a path. They are kept
/// with the trace, and hold until others are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of reading traces, kept until others are given")]
pub struct ReadingArgs {
    /// Name of the trace [default: of its folder, with those above where that says nothing]
    #[arg(long)]
    pub name: Option<String>,
    /// Read only this source [default: auto]
    #[arg(long, value_enum)]
    pub source: Option<Source>,
    /// Give FILE the rank R; of a file with several ranks, the first
    #[arg(long, value_name = "R=FILE", value_parser = rank_file)]
    pub rank: Vec<(i64, PathBuf)>,
    /// Memory snapshot, or folder with them, of the trace; those beside, below and in
    /// `memory_snapshot/` next to its folder are found anyway
    #[arg(long, value_name = "PATH")]
    pub memory: Vec<PathBuf>,
    /// Workload card (YAML) of the trace
    #[arg(long, value_name = "FILE")]
    pub card: Option<PathBuf>,
    /// Configuration of TorchTitan (TOML), for what the card does not say
    #[arg(long, value_name = "TOML")]
    pub config: Option<PathBuf>,
    /// Keep the complete events of a damaged file
    #[arg(long)]
    pub keep_partial: bool,
    /// Take the ranges on the host whose names match REGEX as the steps; its first group, else the
    /// first digits, number them [default: names that profilers and frameworks use]
    #[arg(long, value_name = "REGEX")]
    pub step_range: Option<String>,
    /// Do not wait until the tables are on the disk: for scratch, a loss of power may damage them
    #[arg(long)]
    pub no_sync: bool,
}

/// Which traces a metric is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileMode {
    /// PyTorch Kineto
    Torch,
    /// NVIDIA Nsight Systems
    Nsys,
    /// XLA
    Xla,
    /// Whatever the trace holds
    Auto,
}

impl ReportArgs {
    /// The traces that are asked for, in either form.
    pub fn wanted(&self) -> Vec<String> {
        self.traces.iter().chain(&self.trace).cloned().collect()
    }
}

impl ProfileMode {
    /// The profiler of the mode.
    pub fn source(self) -> Option<Profiler> {
        match self {
            Self::Torch => Some(Profiler::Kineto),
            Self::Nsys => Some(Profiler::Nsys),
            Self::Xla => Some(Profiler::Xla),
            Self::Auto => None,
        }
    }
}

/// Options of `vacuum`.
#[derive(Debug, Args)]
pub struct VacuumArgs {
    /// In an object store: only files written before so many hours, because a writer sends its
    /// files before it names them
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub older_than: u64,
}

/// Options of `answer`.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// What to answer: metric/NAME@VERSION, view/NAME, diagnosis/NAME
    #[arg(value_name = "KIND/NAME", required = true)]
    pub names: Vec<String>,
    /// Not the answers, but what they read of a share of the ranks: of 0/4 to 3/4 all
    #[arg(long, value_name = "I/M", value_parser = Which::share)]
    pub share: Option<Share>,
    /// With --share: how often all ranks have been gone through before
    #[arg(long, value_name = "N", default_value_t = 0, requires = "share")]
    pub level: usize,
    /// The trace, by name
    #[arg(long, value_name = "TRACE")]
    pub trace: String,
    /// Parameter of the metrics that have it
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub param: Vec<(String, String)>,
    /// Only what this profiler recorded
    #[arg(long, value_enum, default_value_t = ProfileMode::Auto)]
    pub profile_mode: ProfileMode,
}

/// Options of `metric`.
#[derive(Debug, Args)]
pub struct MetricArgs {
    /// Metrics, each NAME or NAME@VERSION
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all",
          add = ArgValueCompleter::new(metrics))]
    pub names: Vec<String>,
    /// Every metric
    #[arg(long)]
    pub all: bool,
    /// With --format value: trace, metric and value a line, parted by tabs
    #[arg(long)]
    pub label: bool,
    /// Traces by name, or by path: a path that is not ingested is ingested first. Also 'run_*', the
    /// beginning of a name, and several with commas [default: all traces]
    #[arg(long, value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub trace: Vec<String>,
    /// Parameter of a metric
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub param: Vec<(String, String)>,
    /// The same as -p n_chips=N, for the metrics that have it
    #[arg(long, alias = "n_chips", value_name = "N")]
    pub n_chips: Option<String>,
    /// The same as -p model_params=N, for the metrics that have it
    #[arg(long, alias = "model_params", value_name = "N")]
    pub model_params: Option<String>,
    /// Only traces of this profiler
    #[arg(long, value_enum, default_value_t = ProfileMode::Auto)]
    pub profile_mode: ProfileMode,
    /// Numbers as they are in a table too: no units, every digit
    #[arg(long)]
    pub exact: bool,
    /// Let the machines of a cluster compute what is not kept yet: ray, or ray=ADDRESS. The data
    /// directory must be on a file system that they share
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<Engine>,
    /// Options of reading traces that are given by path.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// Options of `report`, `board`, `diagnose` and `export`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Traces by name, or by path: a path that is not ingested is ingested first. Also 'run_*', the
    /// beginning of a name, and several with commas [default: all traces]
    #[arg(value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub traces: Vec<String>,
    /// The same
    #[arg(long, value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub trace: Vec<String>,
    /// Parameter of the metrics that have it
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub param: Vec<(String, String)>,
    /// Only what this profiler recorded
    #[arg(long, value_enum, default_value_t = ProfileMode::Auto)]
    pub profile_mode: ProfileMode,
    /// Let the machines of a cluster compute what is not kept yet: ray, or ray=ADDRESS. The data
    /// directory must be on a file system that they share
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<Engine>,
    /// Options of reading traces that are given by path.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// Options of `diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// The traces, and what they are asked with.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Also say what a step would take at least if links were faster, ranks alike, communication
    /// hidden, launches gone
    #[arg(long)]
    pub what_if: bool,
    /// Only count findings that gain less of a step than PCT percent
    #[arg(long, value_name = "PCT", default_value_t = LEAST_PCT, value_parser = percent)]
    pub least: f64,
}

/// The device or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnlySide {
    /// Streams of devices
    Device,
    /// Threads of the host
    Host,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The trace.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Only these steps of each rank: 3..5, 3.. or 3
    #[arg(long, value_name = "A..B", value_parser = select::steps)]
    pub steps: Option<RangeInclusive<i64>>,
    /// Only these ranks: 0-7,12
    #[arg(long, value_name = "RANKS", value_parser = select::ranks)]
    pub ranks: Option<Ranks>,
    /// Only what does not end before TIME after the first event of the trace, e.g. 1.5s
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    pub from: Option<i64>,
    /// Only what begins before TIME after the first event of the trace
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    pub to: Option<i64>,
    /// Only one side
    #[arg(long, value_enum, value_name = "SIDE")]
    pub only: Option<OnlySide>,
    /// Only slices that last at least so long, e.g. 10us
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    pub min_dur: Option<i64>,
    /// Write tables, views and metrics into a database file for DuckDB 1.2 or newer, and no
    /// timeline
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["steps", "ranks", "from", "to", "only", "min_dur"])]
    pub duckdb: Option<PathBuf>,
    /// With --duckdb: only these tables, views and metrics; with * and ? [default: all]
    #[arg(long, value_name = "NAME", requires = "duckdb")]
    pub table: Vec<String>,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Baseline: an ingested trace, or the folder of a run, which is ingested first where it is not
    /// yet; with --baseline a run as the others
    #[arg(value_name = "BASE", add = ArgValueCompleter::new(traces))]
    pub base: String,
    /// Runs to compare with it
    #[arg(
        value_name = "TEST",
        required_unless_present = "baseline",
        add = ArgValueCompleter::new(traces)
    )]
    pub tests: Vec<String>,
    /// Compare each run with the median and the spread of a series, as --series of history names it
    #[arg(long, value_name = "SERIES", conflicts_with = "rank_by")]
    pub baseline: Option<String>,
    /// The last N runs of the series only
    #[arg(long, value_name = "N", requires = "baseline",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Changes up to PCT percent are Similar
    #[arg(long, value_name = "PCT", default_value_t = 1.0, value_parser = percent)]
    pub threshold: f64,
    /// Exit with 1 where a metric changes more: 'avg_step_time > +3%', 'mfu < -2%' (of the
    /// baseline)
    #[arg(long, value_name = "EXPR")]
    pub fail_on: Vec<String>,
    /// Metric that ranks several tests [default: the first of step time, iteration time, time of
    /// the trace that all runs have]
    #[arg(long, value_name = "METRIC")]
    pub rank_by: Option<String>,
    /// Parameter of the metrics that have it
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub param: Vec<(String, String)>,
    /// Only what this profiler recorded
    #[arg(long, value_enum, default_value_t = ProfileMode::Auto)]
    pub profile_mode: ProfileMode,
    /// Options of reading traces that are given by path.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// Options of `history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Metrics
    #[arg(value_name = "METRIC", required = true, add = ArgValueCompleter::new(metrics))]
    pub metrics: Vec<String>,
    /// Runs whose card names this series, else those whose names fit; with * and ? [default: every
    /// series that the cards name]
    #[arg(long, value_name = "SERIES")]
    pub series: Option<String>,
    /// The last N runs only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Changes of a level up to PCT percent are none
    #[arg(long, value_name = "PCT", default_value_t = 1.0, value_parser = percent)]
    pub threshold: f64,
    /// Parameter of the metrics that have it
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    pub param: Vec<(String, String)>,
    /// Only what this profiler recorded
    #[arg(long, value_enum, default_value_t = ProfileMode::Auto)]
    pub profile_mode: ProfileMode,
}

/// Things that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Metrics: unit, version, ranges needed, summary
    Metrics,
    /// Diagnoses: version, summary
    Diagnoses,
    /// Ingested traces
    Traces,
    /// Tables and views
    Tables,
    /// SQL functions
    Functions,
}

/// Options of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value_t = What::Metrics)]
    pub what: What,
    /// Only what has WORD in its name, its other names or its summary
    pub word: Option<String>,
    /// Only metrics of this area
    #[arg(long, add = ArgValueCompleter::new(areas))]
    pub area: Option<String>,
}

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Metric (NAME or NAME@VERSION), diagnosis, view, table, function or trace
    #[arg(add = ArgValueCompleter::new(names))]
    pub name: String,
}

/// Options of `rename`.
#[derive(Debug, Args)]
pub struct RenameArgs {
    /// Name of a trace
    #[arg(value_name = "OLD", add = ArgValueCompleter::new(traces))]
    pub from: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub to: String,
}

/// Options of `remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Names of traces, as `list traces` has them
    #[arg(value_name = "TRACE", required = true, add = ArgValueCompleter::new(traces))]
    pub traces: Vec<String>,
}

/// Options of `shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Traces to show, by name or by path: a path that is not ingested is ingested first. Also
    /// 'run_*', the beginning of a name, and several with commas [default: all traces]
    #[arg(long, value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub trace: Vec<String>,
    /// Numbers as they are on a terminal too: no units, every digit
    #[arg(long)]
    pub exact: bool,
    /// Forbid reading and writing files
    #[arg(long)]
    pub sandbox: bool,
}

/// Options of `sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// The statement; `-` reads standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub sql: Option<String>,
    /// Read the statement from FILE
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Traces to show, by name or by path: a path that is not ingested is ingested first. Also
    /// 'run_*', the beginning of a name, and several with commas [default: all traces]
    #[arg(long, value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub trace: Vec<String>,
    /// Numbers as they are on a terminal too: no units, every digit
    #[arg(long)]
    pub exact: bool,
    /// Forbid reading and writing files
    #[arg(long)]
    pub sandbox: bool,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Traces by name, or by path: a path that is not ingested is ingested first. Also 'run_*', the
    /// beginning of a name, and several with commas [default: all traces]
    #[arg(long, value_name = "TRACE", add = ArgValueCompleter::new(traces))]
    pub trace: Vec<String>,
    /// How far two values may be apart, as a share of the larger; counts must be equal
    #[arg(long, value_name = "SHARE", default_value_t = 1e-6)]
    pub tolerance: f64,
}

/// Options of `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Command whose JSON the schema is of [default: tables, views, metrics and the rest of what
    /// there is, as one JSON]
    #[arg(value_enum, value_name = "OUTPUT")]
    pub of: Option<Contract>,
}

/// Outputs that have a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Contract {
    /// metric --format json
    Metric,
    /// diagnose --format json
    Diagnose,
    /// report --format json
    Report,
    /// compare --format json
    Compare,
    /// compare --baseline --format json
    Baseline,
    /// history --format json
    History,
    /// list --format json
    List,
    /// show --format json
    Show,
    /// sql --format json
    Sql,
    /// schema
    Schema,
    /// A line on standard error with --errors json
    Error,
}

/// Options of `mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Folder below which the client may ingest; several may be given [default: it may not ingest]
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// Seconds that a call may take where it asks for none; an ingest may take ten times as long
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Write sql/metrics.lock and the generated documents, in the project's folder
    #[arg(long)]
    pub write: bool,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command that the page is of; with -o DIR/ all pages are written
    #[arg(add = ArgValueCompleter::new(commands))]
    pub command: Option<String>,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// The command line. The short help of a command shows the options of that command; those of all
/// commands are folded into a line.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let global: Vec<String> = command
        .get_arguments()
        .filter(|a| a.is_global_set() && !a.is_hide_set())
        .filter_map(|a| a.get_long().map(|long| format!("--{long}")))
        .collect();
    let fold = format!("Options of every command (--help explains them): {}", global.join(" "));
    let names: Vec<String> = command.get_subcommands().map(|s| s.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            let example = sub.get_after_help().cloned().unwrap_or_default();
            let long = example.clone();
            sub.mut_args(|arg| {
                let is_global = arg.is_global_set();
                arg.hide_short_help(is_global)
            })
            .after_help(format!("{fold}\n\n{example}"))
            .after_long_help(long)
        });
    }
    command
}

/// Names of commands, for a shell that completes one.
fn commands(typed: &OsStr) -> Vec<CompletionCandidate> {
    let command = command();
    let words = command
        .get_subcommands()
        .map(|c| (c.get_name().to_owned(), c.get_about().map(ToString::to_string)));
    beginning(words, typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        command().debug_assert();
    }

    #[test]
    fn the_short_help_of_a_command_is_of_that_command() {
        for sub in command().get_subcommands_mut().filter(|s| s.get_name() != "help") {
            let (short, long) = (sub.render_help().to_string(), sub.render_long_help().to_string());
            assert!(!short.contains("--memory-limit <SIZE>"), "{short}");
            assert!(short.contains("--memory-limit"), "{short}");
            assert!(long.contains("--memory-limit <SIZE>"), "{long}");
        }
    }

    #[test]
    fn every_subcommand_has_an_example() {
        for sub in Cli::command().get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let first = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Example: ccl-sql"), "{}", sub.get_name());
            assert!(first.len() <= 80, "{first}");
        }
    }
}
