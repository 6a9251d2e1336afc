//! The server: takes calls, runs each on a thread of its own, and ends those that take too long or
//! that nobody waits for any more.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant as Moment, interval_at, sleep, timeout};

use crate::cli::args::Global;
use crate::cli::context::Context;
use crate::cli::mcp::answer::{Answer, LEAST_BYTES, MOST_BYTES, Pages, USUAL_BYTES, failed};
use crate::cli::mcp::calls::Call;
use crate::cli::mcp::stop::{Ingest, Stop};
use crate::cli::mcp::tools::{Entry, MORE, MOST_SECONDS, find, tools};
use crate::error::{Error, Result};
use crate::input::progress::Watcher;

/// What a client is told of the server.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Calls that run at a time; others wait. One may be a long ingest.
const TURNS: usize = 2;

/// An ingest may take so many times as long as a question.
const INGEST_TIMES: u64 = 10;

/// How long a call that was told to end is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between two words on the progress of an ingest.
const TICK: Duration = Duration::from_secs(1);

/// What the calls share.
pub struct Shared {
    /// The options of the server.
    pub global: Global,
    /// Folders below which may be ingested.
    pub roots: Vec<PathBuf>,
    /// Seconds that a call may take.
    pub seconds: u64,
    /// Answers that have further pages.
    pages: Mutex<Pages>,
    /// The calls that run.
    work: Mutex<Vec<Work>>,
    turns: Semaphore,
}

/// A call that runs.
struct Work {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

/// What a panic elsewhere leaves is as good as any.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client asks of every tool.
struct Terms {
    most: usize,
    limit: Duration,
}

/// Why a call was told to end.
enum End {
    Time,
    Client,
}

impl Shared {
    /// What the calls of a server share.
    pub fn new(global: Global, roots: Vec<PathBuf>, seconds: u64) -> Self {
        let turns = Semaphore::new(TURNS);
        Self { global, roots, seconds, pages: Mutex::default(), work: Mutex::default(), turns }
    }

    /// The terms of a call, taken out of its arguments.
    fn terms(&self, tool: Option<&Entry>, arguments: &mut JsonObject) -> Result<Terms> {
        let mut number = |name: &str, least: u64, most: u64| match arguments.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|n| (least..=most).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => {
                    Err(Error::new("usage", format!("{name} is a number of {least} to {most}"))
                        .facts(format!("here it is {value}")))
                }
            },
        };
        let most = number("max_bytes", LEAST_BYTES as u64, MOST_BYTES as u64)?;
        let times = if tool.is_some_and(Entry::writes) { INGEST_TIMES } else { 1 };
        let seconds = number("seconds", 1, MOST_SECONDS)?;
        Ok(Terms {
            most: most.and_then(|n| usize::try_from(n).ok()).unwrap_or(USUAL_BYTES),
            limit: Duration::from_secs(seconds.unwrap_or(self.seconds * times)),
        })
    }

    /// Starts a call on a thread of its own.
    fn start(
        self: &Arc<Self>,
        tool: &'static Entry,
        arguments: JsonObject,
    ) -> (Arc<Stop>, oneshot::Receiver<Result<Answer>>) {
        let (sender, receiver) = oneshot::channel();
        let stop = Arc::new(Stop::default());
        let (shared, of_thread) = (self.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            // Nobody may wait for it any more.
            let _ = sender.send(shared.run(tool, arguments, &of_thread));
        });
        let mut work = held(&self.work);
        work.retain(|work| !work.thread.is_finished());
        work.push(Work { stop: stop.clone(), thread });
        (stop, receiver)
    }

    /// Runs a call.
    fn run(&self, tool: &Entry, arguments: JsonObject, stop: &Arc<Stop>) -> Result<Answer> {
        let watcher = Watcher::new(Arc::new(Ingest(stop.clone())));
        let context = Context::new(self.global.clone(), watcher)?;
        // The server is a process of its own.
        let context = Context { own_process: true, ..context };
        let _running = context.interrupt.begin();
        stop.watch(&context.interrupt)?;
        (tool.run)(&Call { context: &context, roots: &self.roots, stop }, arguments)
    }

    /// Tells all calls to end.
    pub fn stop(&self) {
        held(&self.work).iter().for_each(|work| work.stop.now());
    }

    /// Ends all calls, and waits for them: what they wrote aside goes with them.
    pub fn end(&self) {
        self.stop();
        let work = std::mem::take(&mut *held(&self.work));
        let began = Instant::now();
        while began.elapsed() < PATIENCE && work.iter().any(|work| !work.thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A client's server.
pub struct Server(pub Arc<Shared>);

impl Server {
    /// The answer of a call, which ends in time.
    async fn answered(
        &self,
        tool: &'static Entry,
        arguments: JsonObject,
        limit: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer> {
        let _turn = tokio::select! {
            turn = self.0.turns.acquire() => turn,
            () = context.ct.cancelled() => return Err(stopped(&End::Client, limit)),
        };
        let (stop, mut answer) = self.0.start(tool, arguments);
        let over = sleep(limit);
        tokio::pin!(over);
        let mut ticks = interval_at(Moment::now() + TICK, TICK);
        let end = loop {
            tokio::select! {
                done = &mut answer => return done.unwrap_or_else(|_| Err(failed_inside())),
                () = &mut over => break End::Time,
                () = context.ct.cancelled() => break End::Client,
                _ = ticks.tick() => say_progress(&stop, context).await,
            }
        };
        stop.now();
        match timeout(PATIENCE, answer).await {
            // Rows that came in time say themselves that they are not all.
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Err(_)) => Err(failed_inside()),
            Ok(Ok(Err(_))) | Err(_) => Err(stopped(&end, limit)),
        }
    }
}

/// The error of a call that panicked, which says why on standard error.
fn failed_inside() -> Error {
    Error::new("internal", "the program failed").hint("its standard error says where")
}

fn stopped(end: &End, limit: Duration) -> Error {
    match end {
        End::Client => Error::new("interrupted", "the client ended the call"),
        End::Time => {
            let seconds = limit.as_secs();
            Error::new("interrupted", format!("the call was ended after {seconds} seconds"))
                .hint(format!("ask for less, or for more seconds: up to {MOST_SECONDS}"))
        }
    }
}

/// Tells a client that wants to know how far an ingest is.
async fn say_progress(stop: &Stop, context: &RequestContext<RoleServer>) {
    if let (Some(token), Some((read, total))) = (context.meta.get_progress_token(), stop.progress())
    {
        let said = ProgressNotificationParam::new(token, read as f64).with_total(total as f64);
        // A client that has gone is noticed elsewhere.
        let _ = context.peer.notify_progress(said.with_message("bytes read")).await;
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("ccl-sql", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = find(&request.name);
        if tool.is_none() && request.name != MORE {
            let message = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let mut arguments = request.arguments.unwrap_or_default();
        let page = match (self.0.terms(tool, &mut arguments), tool) {
            (Err(error), _) => Err(error),
            (Ok(terms), Some(tool)) => self
                .answered(tool, arguments, terms.limit, &context)
                .await
                .map(|answer| held(&self.0.pages).first(answer, terms.most)),
            (Ok(terms), None) => match arguments.get("cursor") {
                Some(Value::String(cursor)) => held(&self.0.pages).more(cursor, terms.most),
                _ => Err(Error::new("usage", "the tool takes a cursor, which is a text")),
            },
        };
        Ok(match page {
            Ok(page) => CallToolResult::structured(page),
            Err(error) => CallToolResult::structured_error(failed(&error)),
        }
        .into())
    }
}
