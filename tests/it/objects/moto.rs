//! The same at moto's server, which is another reading of the protocol than ours. It is Python's:
//! where it is not there, the test says so and does nothing.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::objects::same::assert_same;
use crate::support::{Place, command_of_cargo, examples};

/// Puts all files of a folder below a prefix of a new bucket.
const UPLOAD: &str = "
import os, sys, boto3
s3 = boto3.client('s3')
s3.create_bucket(Bucket='traces')
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        s3.upload_file(path, 'traces', 'all/' + os.path.relpath(path, sys.argv[1]))
";

/// The server, which ends with the test.
struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of the Python that has moto: `CCL_SQL_MOTO`, or that of the wheel.
fn python() -> Option<PathBuf> {
    let of_wheel = || {
        let target = std::env::current_exe().ok()?;
        Some(target.ancestors().nth(3)?.join("wheel/bin"))
    };
    let folder = std::env::var_os("CCL_SQL_MOTO").map(PathBuf::from).or_else(of_wheel)?;
    folder.join("moto_server").is_file().then_some(folder)
}

#[test]
fn all_examples_are_the_same_at_moto() {
    let Some(python) = python() else {
        let _ = writeln!(std::io::stderr(), "not tested: there is no moto_server (.ci/run has it)");
        return;
    };
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let server = Command::new(python.join("moto_server"))
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Moto(server.expect("moto starts"));
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    for _ in 0..300 {
        if is_up() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_up(), "moto does not answer");
    let endpoint = format!("http://127.0.0.1:{port}");
    let environment = [
        ("AWS_ENDPOINT_URL", &*endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ];
    let mut upload = Command::new(python.join("python"));
    let done = upload.args(["-c", UPLOAD]).arg(examples()).envs(environment).status();
    assert!(done.expect("Python starts").success());
    let (of_objects, of_files) = (Place::new(), Place::new());
    let ingest = ["--data", "../data", "ingest", "s3://traces/all"];
    let mut program = command_of_cargo(&of_objects.input());
    program.args(ingest).envs(environment).assert().success();
    of_files.run(&["ingest", &examples().to_string_lossy()]).done();
    assert_same(&of_objects, &of_files, "s3://traces/all", &examples());
    let again = command_of_cargo(&of_objects.input()).args(ingest).envs(environment).output();
    let said = String::from_utf8(again.expect("it runs").stderr).expect("it is UTF-8");
    let traces = of_files.run(&["list", "traces", "--format", "csv"]).done().lines().count() - 1;
    assert!(traces > 0, "no example was read");
    assert_eq!(said.matches("unchanged").count(), traces, "{said}");

    // The tables there, too.
    let data = |place: &Place, args: &[&str]| -> String {
        let common = ["--data", "s3://traces/lake", "--cache-dir", "../cache"];
        let mut program = command_of_cargo(&place.input());
        let output = program.args(common).args(args).envs(environment).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is UTF-8")
    };
    let (writer, reader) = (Place::new(), Place::new());
    data(&writer, &["ingest", "s3://traces/all/fsdp2-cpu-2"]);
    data(&writer, &["ingest", "s3://traces/all/fsdp2-cpu-2", "--force"]);
    let question = ["metric", "iter_time", "--trace", "fsdp2-cpu-2", "--format", "csv"];
    let on_disk = of_files.run(&question).done();
    assert_eq!(data(&reader, &question), on_disk);
    data(&reader, &["vacuum", "--older-than", "0"]);
    assert_eq!(data(&Place::new(), &question), on_disk);
    data(&reader, &["remove", "fsdp2-cpu-2"]);
    assert_eq!(data(&writer, &["list", "traces", "--format", "csv"]).lines().count(), 1);
}
