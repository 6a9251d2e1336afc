//! Standard input, whose end is noticed at once: then nobody waits for the calls that still run.

use std::io::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf, Stdin, stdin};

use crate::cli::mcp::server::Shared;

/// How long calls may still run when the client has gone. It may have closed its end only to say
/// that it asks no more; but clients kill a server that does not go within two seconds.
const GRACE: Duration = Duration::from_secs(1);

/// Standard input.
pub struct Input {
    stdin: Stdin,
    /// What is told of the end; None once it was.
    shared: Option<Arc<Shared>>,
}

impl Input {
    /// The input of a server.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { stdin: stdin(), shared: Some(shared) }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let out = Pin::new(&mut self.stdin).poll_read(context, buffer);
        let is_over = match &out {
            Poll::Ready(Ok(())) => buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over && let Some(shared) = self.shared.take() {
            std::thread::spawn(move || {
                std::thread::sleep(GRACE);
                shared.stop();
            });
        }
        out
    }
}
