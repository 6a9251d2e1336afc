//! The stores that were asked for, and the one thread that speaks with them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Handle};

use crate::error::{Error, Result};
use crate::pool::lock;
use crate::remote::fault;
use crate::remote::url::parts;

/// Times that a request is tried again, where it was not taken, or the store is overloaded.
const RETRIES: usize = 8;
/// Longest that a request is tried again.
const RETRY_S: u64 = 120;
/// Limits of a connection, where the environment gives no others: a large object may take hours, as
/// long as its bytes come.
const LIMITS: [(ClientConfigKey, &str, &str); 3] = [
    (ClientConfigKey::Timeout, "TIMEOUT", "1 day"),
    (ClientConfigKey::ReadTimeout, "READ_TIMEOUT", "30 seconds"),
    (ClientConfigKey::ConnectTimeout, "CONNECT_TIMEOUT", "10 seconds"),
];

/// A bucket.
pub(super) struct Bucket {
    /// Its objects.
    pub(super) objects: Arc<dyn ObjectStore>,
    /// Its listing, a page at a time.
    pub(super) pages: Arc<dyn PaginatedListStore>,
}

/// The thread that waits for sockets and clocks, started by the first question.
static RUNTIME: LazyLock<std::io::Result<Handle>> = LazyLock::new(|| {
    // The one implementation of TLS that is built in; another call may have named it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let serve = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("object-stores".to_owned()).spawn(serve)?;
    Ok(handle)
});

static BUCKETS: LazyLock<Mutex<HashMap<String, Arc<Bucket>>>> = LazyLock::new(Mutex::default);

/// Waits for an answer.
///
/// # Errors
/// `io` where no thread can be started.
pub(super) fn wait<T>(question: impl Future<Output = T>) -> Result<T> {
    match &*RUNTIME {
        Ok(handle) => Ok(handle.block_on(question)),
        Err(e) => Err(Error::new("io", format!("no thread for object stores can be started: {e}"))),
    }
}

/// The bucket of a path, and the key of the path in it.
///
/// # Errors
/// `file-unreadable` where the environment says too little of the store, or nonsense.
pub(super) fn bucket(path: &Path) -> Result<(Arc<Bucket>, object_store::path::Path)> {
    let odd = || {
        Error::new("file-unreadable", "the name is no path of an object store")
            .at(path.display().to_string())
    };
    let (scheme, name, key) = parts(path).ok_or_else(odd)?;
    let key = object_store::path::Path::parse(key).map_err(|_| odd())?;
    // Sockets belong to the runtime, which must be there before a client.
    wait(std::future::ready(()))?;
    let mut buckets = lock(&BUCKETS);
    let url = format!("{scheme}://{name}");
    if let Some(bucket) = buckets.get(&url) {
        return Ok((bucket.clone(), key));
    }
    let made = match scheme {
        "gs" => google(name),
        "az" => azure(name),
        _ => amazon(name),
    };
    let made = made.map_err(|e| fault::unreadable(path, "the store cannot be asked", &e))?;
    let made = Arc::new(made);
    buckets.insert(url, made.clone());
    Ok((made, key))
}

impl Bucket {
    fn new<S: ObjectStore + PaginatedListStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self { objects: store.clone(), pages: store }
    }
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: RETRIES,
        retry_timeout: std::time::Duration::from_secs(RETRY_S),
        ..RetryConfig::default()
    }
}

/// The limits that the environment does not set, whose words begin so.
fn limits(prefix: &str) -> impl Iterator<Item = (ClientConfigKey, &'static str)> {
    let is_set = move |word: &str| std::env::var_os(format!("{prefix}_{word}")).is_some();
    LIMITS.into_iter().filter(move |(_, word, _)| !is_set(word)).map(|(key, _, limit)| (key, limit))
}

fn amazon(name: &str) -> object_store::Result<Bucket> {
    let store = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry());
    let store = limits("AWS").fold(store, |store, (key, limit)| {
        store.with_config(AmazonS3ConfigKey::Client(key), limit)
    });
    Ok(Bucket::new(store.build()?))
}

fn google(name: &str) -> object_store::Result<Bucket> {
    let store = GoogleCloudStorageBuilder::from_env().with_bucket_name(name).with_retry(retry());
    let store = limits("GOOGLE")
        .fold(store, |store, (key, limit)| store.with_config(GoogleConfigKey::Client(key), limit));
    Ok(Bucket::new(store.build()?))
}

fn azure(name: &str) -> object_store::Result<Bucket> {
    let store = MicrosoftAzureBuilder::from_env().with_container_name(name).with_retry(retry());
    let store = limits("AZURE")
        .fold(store, |store, (key, limit)| store.with_config(AzureConfigKey::Client(key), limit));
    Ok(Bucket::new(store.build()?))
}
