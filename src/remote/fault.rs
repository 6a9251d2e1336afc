//! What a store answered when it refused, in our words: its own hold the address of the request,
//! and may name a key.

use std::path::Path;

use object_store::Error as Said;
use object_store::client::{HttpError, HttpErrorKind};

use crate::error::Error;

/// The error of a file that is not what it was when it was listed.
pub(super) fn changed(path: &Path) -> Error {
    Error::new("file-changed", "the object changed while it was read")
        .at(path.display().to_string())
        .hint("ingest again when nobody writes it any more")
}

/// Whether the version that a request named is gone.
pub(super) fn is_changed(said: &Said) -> bool {
    causes(said).any(|cause| {
        cause.downcast_ref().is_some_and(|said| matches!(said, Said::Precondition { .. }))
    }) || status(&said.to_string()) == Some(412)
}

/// Whether there is nothing of that name.
pub(super) fn is_missing(said: &Said) -> bool {
    matches!(said, Said::NotFound { .. })
}

/// The error of something that cannot be read in a store.
pub(super) fn unreadable(path: &Path, what: &str, said: &Said) -> Error {
    let (why, hint) = words(said);
    Error::new("file-unreadable", format!("{what}: {why}"))
        .at(path.display().to_string())
        .hint(hint)
}

/// Why a store refused, and what to do.
fn words(said: &Said) -> (String, &'static str) {
    const CREDENTIALS: &str = "check the credentials in the environment (AWS_ACCESS_KEY_ID and \
        AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME), and \
        what they may do";
    const NAME: &str = "check the name, the region and the endpoint (AWS_REGION, AWS_ENDPOINT_URL)";
    const LATER: &str = "try again later: nothing that was read whole is read again";
    let text = said.to_string();
    let (status, code) = (status(&text), code(&text));
    let named = |why: &str| match (&code, status) {
        (Some(code), _) => format!("{why} ({code})"),
        (None, Some(status)) => format!("{why} ({status})"),
        (None, None) => why.to_owned(),
    };
    let is_of_host = ["169.254.", "metadata.google.internal"].iter().any(|at| text.contains(at));
    match (code.as_deref(), status) {
        _ if is_of_host => (
            "there are no credentials in the environment, and this machine has none".to_owned(),
            CREDENTIALS,
        ),
        (Some("NoSuchBucket" | "ContainerNotFound"), _) => (named("there is no such bucket"), NAME),
        (_, Some(404)) => (named("there is no such object"), NAME),
        (_, Some(401 | 403)) => (named("access is denied"), CREDENTIALS),
        (_, Some(429 | 500..)) => (named("the store is overloaded, or has a fault"), LATER),
        (_, Some(_)) => (named("the store refused"), NAME),
        _ if matches!(said, Said::NotFound { .. }) => ("there is no such object".to_owned(), NAME),
        _ => (transport(said), "check the network, and the endpoint (AWS_ENDPOINT_URL)"),
    }
}

/// What happened on the way to a store.
fn transport(said: &Said) -> String {
    let kind =
        causes(said).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind);
    // The innermost cause is that of the system, or of TLS, and names no address.
    let last = causes(said).last().map(ToString::to_string).unwrap_or_default();
    match kind {
        Some(HttpErrorKind::Timeout) => "the store gave no answer in time".to_owned(),
        Some(HttpErrorKind::Connect) => format!("the store cannot be reached: {last}"),
        Some(_) => format!("the connection to the store broke: {last}"),
        None => last,
    }
}

/// An error and what it came from.
fn causes<'e>(said: &'e Said) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    let first: &'e (dyn std::error::Error + 'static) = said;
    std::iter::successors(Some(first), |&cause| cause.source())
}

/// The status of the answer, as the message gives it.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// The word that a store has for the fault: the only part of its text that is passed on.
fn code(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = code.len() <= 60 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_word && !code.is_empty()).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn what_a_store_says_is_not_passed_on() {
        let body = "Error performing GET http://host/b/k in 2ms - Server returned non-2xx status \
                    code: 403 Forbidden: <Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>AKIA\
                    HIDDEN</AWSAccessKeyId></Error>";
        let error = unreadable(Path::new("s3://b/k"), "cannot open the object", &said(body));
        assert_eq!(error.message, "cannot open the object: access is denied (InvalidAccessKeyId)");
        assert!(!error.to_string().contains("HIDDEN") && !error.to_string().contains("//host"));
        let odd = "status code: 403 Forbidden: <Code>a b; HIDDEN</Code>";
        assert_eq!(words(&said(odd)).0, "access is denied (403)");
    }

    #[test]
    fn faults_are_told_apart() {
        for (text, why) in [
            ("status code: 404 Not Found: <Code>NoSuchBucket</Code>", "no such bucket"),
            ("status code: 404 Not Found: ", "no such object (404)"),
            ("status code: 503 Slow Down: <Code>SlowDown</Code>", "overloaded"),
            ("status code: 400 Bad Request: ", "the store refused (400)"),
            ("Error performing PUT http://169.254.169.254/latest - x", "no credentials"),
            ("connection refused", "connection refused"),
        ] {
            assert!(words(&said(text)).0.contains(why), "{text}: {}", words(&said(text)).0);
        }
        assert!(is_changed(&said("status code: 412 Precondition Failed: ")));
        assert!(!is_changed(&said("status code: 404 Not Found: ")));
    }
}
