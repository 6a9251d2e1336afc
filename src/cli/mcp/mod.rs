//! `mcp`: the program as a server of the Model Context Protocol, on standard input and output.
//!
//! The protocol runs on one thread, and every call on a thread of its own, so that it can be ended
//! while DuckDB works. A call is a command of the program without its printing. This is the one
//! command that asks others.

mod answer;
mod calls;
mod input;
mod query;
mod server;
mod stop;
mod tools;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

use self::input::Input;
use self::server::{Server, Shared};
use crate::cli::args::{Global, McpArgs};
use crate::cli::context::Context;
use crate::error::{Error, Result};

/// Runs the command: returns when the client has gone.
///
/// # Errors
/// `file-unreadable` for a root that is no folder, `usage` where the client speaks another
/// protocol, `io`.
pub fn run(context: &Context, args: &McpArgs) -> Result<()> {
    let roots = args.root.iter().map(|path| root(path)).collect::<Result<Vec<_>>>()?;
    // Nothing but the protocol may go to standard output, and what a call says is in its answer.
    let global = Global { quiet: true, format: None, output: None, ..context.global.clone() };
    let shared = Arc::new(Shared::new(global, roots, args.seconds));
    if std::io::stdin().is_terminal() {
        context.printer.note("an agent starts this command, and speaks to it; Ctrl-C ends it");
    }
    let cannot = |why: String| Error::new("io", format!("cannot serve: {why}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| cannot(e.to_string()))?;
    let served = runtime.block_on(async {
        let streams = (Input::new(shared.clone()), tokio::io::stdout());
        match Server(shared.clone()).serve(streams).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|e| cannot(e.to_string())),
            // It went before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                Err(Error::new("usage", "the client does not begin as the protocol does")
                    .hint("an agent starts this command: its configuration names `ccl-sql mcp`"))
            }
            Err(error) => Err(cannot(error.to_string())),
        }
    });
    shared.end();
    // Standard input may still be read, which nothing can stop.
    runtime.shutdown_background();
    served
}

/// The real path of a folder below which may be ingested.
fn root(path: &Path) -> Result<PathBuf> {
    let unusable = |why: String| {
        Error::new("file-unreadable", why)
            .at(path.display().to_string())
            .hint("--root names a folder with traces")
    };
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(unusable("the root is no folder".to_owned())),
        Err(e) => Err(unusable(format!("cannot open the root: {e}"))),
    }
}
