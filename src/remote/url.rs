//! URLs of object stores, as paths.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// What a URL of a store begins with: Amazon S3 and what speaks its protocol, Google Cloud Storage,
/// Azure Blob Storage.
const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

/// Whether a path lies in an object store.
pub(crate) fn is_url(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    // Longer than the words, and cheap: every file is asked.
    text.get(2..5) == Some(b"://".as_slice())
        && SCHEMES.iter().any(|scheme| text.starts_with(scheme.as_bytes()))
}

/// A path that was given, as it is used: of a URL without a slash at its end.
///
/// # Errors
/// `usage` for a URL that names no bucket, holds a key or a password, or is no path. What it says
/// never holds the URL: it may have a secret in it.
pub(crate) fn checked(path: &Path) -> Result<PathBuf> {
    if !is_url(path) {
        return Ok(path.to_owned());
    }
    let scheme = SCHEMES.into_iter().find(|scheme| path.to_string_lossy().starts_with(scheme));
    let refused = |why: &str| {
        Err(Error::new("usage", format!("the URL of an object store {why}"))
            .at(format!("{}://...", scheme.unwrap_or_default()))
            .hint("give it as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"))
    };
    let Some(text) = path.to_str() else { return refused("is no UTF-8") };
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains('?') || bucket.contains(['@', ':']) {
        return refused("holds a key, a password or a query").map_err(|e: Error| {
            e.hint("credentials come from the environment; leave them out of the URL")
        });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if bucket.is_empty() || !bucket.chars().all(allowed) || bucket.starts_with('.') {
        return refused("names no bucket");
    }
    let key = key.trim_end_matches('/');
    let is_odd = |part: &str| matches!(part, "" | "." | "..") || part.contains(char::is_control);
    if !key.is_empty() && key.split('/').any(is_odd) {
        return refused("has parts that are empty, dots, or hold control characters");
    }
    let slash = if key.is_empty() { "" } else { "/" };
    Ok(PathBuf::from(format!("{scheme}://{bucket}{slash}{key}")))
}

/// Scheme, bucket and key of a path in a store; the key of a bucket itself is empty.
pub(super) fn parts(path: &Path) -> Option<(&str, &str, &str)> {
    if !is_url(path) || path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let (scheme, rest) = path.to_str()?.split_once("://")?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    Some((scheme, bucket, key))
}

/// Whether two paths lie in one bucket, which can copy the one to the other.
pub(crate) fn is_one_bucket(one: &Path, other: &Path) -> bool {
    let bucket = |path| parts(path).map(|(scheme, bucket, _)| (scheme, bucket));
    bucket(one).is_some_and(|of_one| Some(of_one) == bucket(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for (text, is) in [
            ("s3://b/k", true),
            ("gs://b", true),
            ("az://c/k", true),
            ("s3:/b/k", false),
            ("/s3://b", false),
            ("xy://b", false),
            ("s3", false),
            ("", false),
        ] {
            assert_eq!(is_url(Path::new(text)), is, "{text}");
        }
    }

    #[test]
    fn a_url_is_refused_without_its_secret() {
        for text in [
            "s3://KEY:secret@bucket/x",
            "s3://secret@bucket",
            "s3://bucket/x?X-Amz-Signature=secret",
            "s3://bucket:secret/x",
            "s3://",
            "s3:///secret",
            "s3://bu cket/secret",
            "s3://bucket/a/../secret",
            "s3://bucket/a//secret",
            "s3://bucket/a/\u{1}secret",
        ] {
            let error = checked(Path::new(text)).expect_err(text);
            assert_eq!(error.code, "usage", "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_slash_at_the_end_says_nothing() {
        for (text, as_used) in [
            ("s3://b", "s3://b"),
            ("s3://b/", "s3://b"),
            ("s3://b/a/c//", "s3://b/a/c"),
            ("dir/", "dir/"),
        ] {
            assert_eq!(checked(Path::new(text)).expect(text).as_os_str(), as_used);
        }
        assert_eq!(parts(Path::new("s3://b/a/c")), Some(("s3", "b", "a/c")));
        assert_eq!(parts(Path::new("s3://b")), Some(("s3", "b", "")));
    }
}
