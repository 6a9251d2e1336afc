//! A small server that speaks as much of the protocol of Amazon S3 as the program asks for, and
//! does badly what it is told to: it is busy, breaks connections, is slow, or has another object
//! a moment later. It reads and writes objects as the stores of Google and Azure do, too.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use assert_cmd::Command;
use chrono::{DateTime, Utc};

use crate::support::{Place, Run, command_of_cargo, command_with_few_files, files};

/// The one bucket of the server.
pub const BUCKET: &str = "traces";

/// What stands before the bucket where a store of Azure is played.
const AZURES: &str = "devstoreaccount1/";

/// Bytes of an object that no look at its beginning gets.
const LARGE: usize = 50_000;

/// What the server does badly.
pub enum Fault {
    /// Refuses so many requests, because it is busy.
    Busy(usize),
    /// Refuses all requests.
    Denied,
    /// Refuses to write and to remove.
    ReadOnly,
    /// Refuses to write the object of this key.
    Refuses(String),
    /// Breaks the connection of so many requests for an object behind so many bytes.
    Cut(usize, usize),
    /// Waits between pieces of an object.
    Slow,
    /// Breaks the connection of a request for a large object, and has other bytes then.
    Replaced(Vec<u8>),
    /// Refuses the part of this number of any object that comes in parts.
    Part(u32),
    /// When somebody is about to put an object under the first key, has one under the second.
    Meanwhile(String, String, Vec<u8>),
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    log: Vec<String>,
    fault: Option<Fault>,
    /// How long ago all objects were written.
    age: Duration,
    /// The time at which all objects were written, where no answer says a version.
    unversioned: Option<SystemTime>,
    /// The objects whose parts are coming: key, and number and bytes of each part.
    uploads: Vec<(String, BTreeMap<u32, Vec<u8>>)>,
}

impl State {
    /// When all objects were written.
    fn written(&self) -> DateTime<Utc> {
        self.unversioned.unwrap_or_else(|| SystemTime::now() - self.age).into()
    }
}

/// The server. It ends with the tests.
pub struct S3 {
    address: String,
    state: Arc<Mutex<State>>,
}

/// A request: its method, its key, its query, its headers with small letters, and its body.
struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl S3 {
    /// A server without objects.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let an_hour = Duration::from_secs(3600);
        let state = Arc::new(Mutex::new(State { age: an_hour, ..State::default() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // A client that goes away is nobody's fault.
                std::thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Self { address, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the server panics")
    }

    /// Puts an object.
    pub fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) -> &Self {
        self.state().objects.insert(key.to_owned(), bytes.into());
        self
    }

    /// Puts all files of a folder below a prefix.
    pub fn put_all(&self, folder: &Path, prefix: &str) -> &Self {
        for file in files(folder) {
            let name = file.strip_prefix(folder).expect("it lies there").to_string_lossy();
            self.put(&format!("{prefix}/{name}"), std::fs::read(&file).expect("a file"));
        }
        self
    }

    /// The bytes of an object.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.state().objects.get(key).cloned()
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        self.state().objects.remove(key);
    }

    /// The keys that there are.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// From now on all objects are so old.
    pub fn is_of(&self, age: Duration) {
        self.state().age = age;
    }

    /// From now on no answer says the version of an object.
    pub fn says_no_versions(&self) {
        let mut state = self.state();
        state.unversioned = Some(SystemTime::now() - state.age);
    }

    /// The number of objects of which some parts have come.
    pub fn uploads(&self) -> usize {
        self.state().uploads.iter().filter(|(_, parts)| !parts.is_empty()).count()
    }

    /// From now on something is done badly.
    pub fn fails(&self, fault: Fault) -> &Self {
        self.state().fault = Some(fault);
        self
    }

    /// The requests since the last question: method and key.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// The command of the program, which knows the server.
    pub fn command(&self, folder: &Path) -> Command {
        self.known_to(command_of_cargo(folder))
    }

    fn known_to(&self, mut command: Command) -> Command {
        for (name, value) in [
            ("AWS_ENDPOINT_URL", &*self.address),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "AKIDTEST"),
            ("AWS_SECRET_ACCESS_KEY", "SECRETTEST"),
            ("AWS_REGION", "us-east-1"),
            ("GOOGLE_ALLOW_HTTP", "true"),
            ("AZURE_STORAGE_USE_EMULATOR", "true"),
            ("AZURITE_BLOB_STORAGE_URL", &*self.address),
        ] {
            command.env(name, value);
        }
        let account = serde_json::json!({
            "gcs_base_url": self.address,
            "disable_oauth": true,
            "client_email": "",
            "private_key": "SECRETTEST",
            "private_key_id": "",
        });
        command.env("GOOGLE_SERVICE_ACCOUNT_KEY", account.to_string());
        command
    }

    /// Runs the program in a place, with its data directory there.
    pub fn run(&self, place: &Place, args: &[&str]) -> Run {
        Self::run_of(self.command(&place.input()), args)
    }

    /// The same, where a process may have few files open.
    pub fn run_with_few_files(&self, place: &Place, files: u32, args: &[&str]) -> Run {
        Self::run_of(self.known_to(command_with_few_files(&place.input(), files)), args)
    }

    fn run_of(mut command: Command, args: &[&str]) -> Run {
        if !args.contains(&"--data") {
            command.args(["--data", "../data"]);
        }
        let output = command.args(args).output().expect("the program can be started");
        let text = |bytes| String::from_utf8(bytes).expect("it is UTF-8");
        let run = Run {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!run.stderr.contains("SECRETTEST"), "{}", run.stderr);
        run
    }
}

/// The version of an object, as its header.
fn etag(bytes: &[u8]) -> String {
    format!("\"{:016x}\"", hash(bytes))
}

/// The headers of the version of an object: that of all stores, and that of Google's.
fn version(bytes: &[u8]) -> [(&'static str, String); 2] {
    [("ETag", etag(bytes)), ("x-goog-generation", hash(bytes).to_string())]
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(request) = request(&mut reader)? else { return Ok(()) };
    let mut state = state.lock().expect("no thread of the server panics");
    let listed = request.query.get("prefix").map(|prefix| format!("?{prefix}"));
    state.log.push(format!("{} {}{}", request.method, request.key, listed.unwrap_or_default()));
    match &mut state.fault {
        Some(Fault::Busy(left)) if *left > 0 => {
            *left -= 1;
            return answer(stream, "503 Slow Down", &[], b"<Error><Code>SlowDown</Code></Error>");
        }
        Some(Fault::ReadOnly) if ["GET", "HEAD"].contains(&request.method.as_str()) => {}
        Some(Fault::Refuses(key)) if *key != request.key || request.method != "PUT" => {}
        Some(Fault::Denied | Fault::ReadOnly | Fault::Refuses(_)) => {
            let body = b"<Error><Code>AccessDenied</Code><AWSAccessKeyId>SECRETTEST\
                         </AWSAccessKeyId></Error>";
            return answer(stream, "403 Forbidden", &[], body);
        }
        _ => {}
    }
    match request.method.as_str() {
        "GET" if request.key.is_empty() => {
            let text = match request.query.contains_key("comp") {
                true => listing_of_azure(&state, &request.query),
                false => listing(&state, &request.query),
            };
            answer(stream, "200 OK", &[], text.as_bytes())
        }
        "GET" | "HEAD" => get(stream, &mut state, &request),
        "PUT" if request.headers.contains_key("x-amz-copy-source") => {
            copy(stream, &mut state, &request)
        }
        "POST" if request.query.contains_key("uploads") => {
            state.uploads.push((request.key.clone(), BTreeMap::new()));
            let id = state.uploads.len() - 1;
            let body = format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
                 </InitiateMultipartUploadResult>"
            );
            answer(stream, "200 OK", &[], body.as_bytes())
        }
        _ if request.query.contains_key("uploadId") => upload(stream, &mut state, request),
        "PUT" => put(stream, &mut state, &request),
        "POST" if request.query.contains_key("delete") => {
            let text = String::from_utf8_lossy(&request.body);
            let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
            keys.for_each(|key| _ = state.objects.remove(key));
            answer(
                stream,
                "200 OK",
                &[],
                b"<DeleteResult><Deleted><Key>x</Key></Deleted></DeleteResult>",
            )
        }
        "DELETE" => {
            state.objects.remove(&request.key);
            answer(stream, "204 No Content", &[], b"")
        }
        _ => answer(stream, "405 Method Not Allowed", &[], b""),
    }
}

fn request(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = decoded(path).trim_start_matches('/').to_owned();
    let key = key.strip_prefix(AZURES).unwrap_or(&key);
    let key = key.strip_prefix(BUCKET).unwrap_or("?").trim_start_matches('/').to_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(&value.replace('+', " ")))
    };
    let query = query.split('&').map(pair).collect();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method: method.to_owned(), key, query, headers, body }))
}

fn decoded(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let byte = (*first == b'%').then(|| std::str::from_utf8(after.get(..2)?).ok()).flatten();
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (out, rest) = ([out, vec![byte]].concat(), &after[2..]),
            None => (out, rest) = ([out, vec![*first]].concat(), after),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn answer(
    mut stream: TcpStream,
    status: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> std::io::Result<()> {
    stream.write_all(head(status, headers, body.len()).as_bytes())?;
    stream.write_all(body)
}

fn head(status: &str, headers: &[(&str, String)], length: usize) -> String {
    let mut text =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text + "\r\n"
}

fn get(mut stream: TcpStream, state: &mut State, request: &Request) -> std::io::Result<()> {
    let missing = b"<Error><Code>NoSuchKey</Code></Error>";
    let Some(bytes) = state.objects.get(&request.key).cloned() else {
        return answer(stream, "404 Not Found", &[], missing);
    };
    if request.headers.get("if-match").is_some_and(|wanted| *wanted != etag(&bytes)) {
        return answer(stream, "412 Precondition Failed", &[], b"");
    }
    let written = state.written().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let mut headers = vec![("Last-Modified", written)];
    if state.unversioned.is_none() {
        headers.extend(version(&bytes));
    }
    let range = request.headers.get("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let to: usize = to.parse().unwrap_or(usize::MAX);
        Some((from.parse::<usize>().ok()?, to.min(bytes.len().saturating_sub(1))))
    });
    let (status, part) = match range {
        Some((from, to)) => {
            headers.push(("Content-Range", format!("bytes {from}-{to}/{}", bytes.len())));
            ("206 Partial Content", &bytes[from..=to])
        }
        None => ("200 OK", &bytes[..]),
    };
    stream.write_all(head(status, &headers, part.len()).as_bytes())?;
    if request.method == "HEAD" {
        return Ok(());
    }
    match &mut state.fault {
        Some(Fault::Cut(left, behind)) if *left > 0 && part.len() > *behind => {
            *left -= 1;
            stream.write_all(&part[..*behind])
        }
        Some(Fault::Replaced(other)) if part.len() > LARGE => {
            let other = std::mem::take(other);
            state.objects.insert(request.key.clone(), other);
            state.fault = None;
            stream.write_all(&part[..part.len() / 2])
        }
        Some(Fault::Slow) => part.chunks(part.len() / 8 + 1).try_for_each(|piece| {
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(piece)
        }),
        _ => stream.write_all(part),
    }
}

fn put(stream: TcpStream, state: &mut State, request: &Request) -> std::io::Result<()> {
    if let Some(Fault::Meanwhile(_, key, bytes)) = state
        .fault
        .take_if(|fault| matches!(fault, Fault::Meanwhile(put, ..) if *put == request.key))
    {
        state.objects.insert(key, bytes);
    }
    let there = state.objects.get(&request.key);
    let is = |text: &String| there.is_some_and(|bytes| *text == etag(bytes));
    let is_of = |text: &String| match text.as_str() {
        "0" => there.is_none(),
        text => there.is_some_and(|bytes| text == hash(bytes).to_string()),
    };
    let asks = |name| request.headers.get(name);
    if there.is_some() && asks("if-none-match").is_some()
        || !asks("if-match").is_none_or(is)
        || !asks("x-goog-if-generation-match").is_none_or(is_of)
    {
        return answer(stream, "412 Precondition Failed", &[], b"");
    }
    let version = version(&request.body);
    state.objects.insert(request.key.clone(), request.body.clone());
    answer(stream, "200 OK", &version, b"")
}

/// Takes a part of an object, makes the object of all of them, or forgets them.
fn upload(stream: TcpStream, state: &mut State, request: Request) -> std::io::Result<()> {
    let id: Option<usize> = request.query["uploadId"].parse().ok();
    let Some((key, parts)) = id.and_then(|id| state.uploads.get_mut(id)) else {
        return answer(stream, "404 Not Found", &[], b"<Error><Code>NoSuchUpload</Code></Error>");
    };
    assert_eq!(*key, request.key);
    match request.method.as_str() {
        "PUT" => {
            let number: u32 = request.query["partNumber"].parse().expect("a number");
            if matches!(state.fault, Some(Fault::Part(refused)) if refused == number) {
                let body = b"<Error><Code>AccessDenied</Code></Error>";
                return answer(stream, "403 Forbidden", &[], body);
            }
            let tag = etag(&request.body);
            parts.insert(number, request.body);
            answer(stream, "200 OK", &[("ETag", tag)], b"")
        }
        "POST" => {
            let bytes = std::mem::take(parts).into_values().collect::<Vec<_>>().concat();
            let tag = marked(&etag(&bytes));
            state.objects.insert(request.key, bytes);
            let body = format!(
                "<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
            );
            answer(stream, "200 OK", &[], body.as_bytes())
        }
        _ => {
            parts.clear();
            answer(stream, "204 No Content", &[], b"")
        }
    }
}

/// Copies the object that a header names.
fn copy(stream: TcpStream, state: &mut State, request: &Request) -> std::io::Result<()> {
    let from = decoded(&request.headers["x-amz-copy-source"]);
    let from = from.trim_start_matches('/').strip_prefix(BUCKET).unwrap_or("?");
    let Some(bytes) = state.objects.get(from.trim_start_matches('/')).cloned() else {
        return answer(stream, "404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>");
    };
    let tag = marked(&etag(&bytes));
    state.objects.insert(request.key.clone(), bytes);
    let body = format!("<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>");
    answer(stream, "200 OK", &[], body.as_bytes())
}

/// A page of a listing.
#[derive(Default)]
struct Page<'s> {
    objects: Vec<(&'s str, &'s [u8])>,
    prefixes: Vec<String>,
    /// The last key, where there are more.
    next: Option<&'s str>,
}

/// The objects of a prefix whose keys come next; of those below a delimiter only the prefixes.
fn page<'s>(
    state: &'s State,
    prefix: &str,
    is_next: impl Fn(&str) -> bool,
    delimiter: &str,
    most: &str,
) -> Page<'s> {
    let most: usize = most.parse().unwrap_or(1000);
    let (mut out, mut last) = (Page::default(), "");
    for (key, bytes) in state.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        if !is_next(key) {
            continue;
        }
        if out.objects.len() + out.prefixes.len() == most {
            out.next = Some(last);
            break;
        }
        last = key;
        match key[prefix.len()..].split_once('/').filter(|_| delimiter == "/") {
            Some((folder, _)) => {
                let folder = format!("{prefix}{folder}/");
                if !out.prefixes.contains(&folder) {
                    out.prefixes.push(folder);
                }
            }
            None => out.objects.push((key, bytes)),
        }
    }
    out
}

/// The answer to a request for a listing.
fn listing(state: &State, query: &BTreeMap<String, String>) -> String {
    let of = |name: &str| query.get(name).map_or("", String::as_str);
    let after = of("continuation-token").max(of("start-after"));
    let page = page(state, of("prefix"), |key| key > after, of("delimiter"), of("max-keys"));
    let mut text = String::new();
    for (key, bytes) in page.objects {
        let version = match state.unversioned {
            Some(_) => String::new(),
            None => format!("<ETag>{}</ETag>", marked(&etag(bytes))),
        };
        let _ = write!(
            text,
            "<Contents><Key>{}</Key><LastModified>{}</LastModified>{version}\
             <Size>{}</Size></Contents>",
            marked(key),
            state.written().format("%Y-%m-%dT%H:%M:%S.000Z"),
            bytes.len()
        );
    }
    for folder in page.prefixes {
        let _ =
            write!(text, "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", marked(&folder));
    }
    if let Some(last) = page.next {
        let _ = write!(text, "<NextContinuationToken>{}</NextContinuationToken>", marked(last));
    }
    format!("<?xml version=\"1.0\"?><ListBucketResult>{text}</ListBucketResult>")
}

/// The same, as a store of Azure says it.
fn listing_of_azure(state: &State, query: &BTreeMap<String, String>) -> String {
    let of = |name: &str| query.get(name).map_or("", String::as_str);
    let is_next = |key: &str| key > of("marker") && key >= of("startFrom");
    let page = page(state, of("prefix"), is_next, of("delimiter"), of("maxresults"));
    let mut text = String::new();
    for (key, bytes) in page.objects {
        let _ = write!(
            text,
            "<Blob><Name>{}</Name><Properties><Last-Modified>{}</Last-Modified>\
             <Content-Length>{}</Content-Length><Content-Type>x</Content-Type><Etag>{}</Etag>\
             </Properties></Blob>",
            marked(key),
            state.written().format("%a, %d %b %Y %H:%M:%S GMT"),
            bytes.len(),
            marked(&etag(bytes))
        );
    }
    for folder in page.prefixes {
        let _ = write!(text, "<BlobPrefix><Name>{}</Name></BlobPrefix>", marked(&folder));
    }
    let next = page.next.map(marked).unwrap_or_default();
    format!(
        "<?xml version=\"1.0\"?><EnumerationResults><Blobs>{text}</Blobs>\
         <NextMarker>{next}</NextMarker></EnumerationResults>"
    )
}

/// Text inside of XML.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' => drop(write!(out, "&#{};", c as u32)),
            c if c.is_control() => drop(write!(out, "&#{};", c as u32)),
            c => out.push(c),
        }
    }
    out
}
