//! The stores of Google and Azure.

use crate::support::runs::step_of_rank;
use crate::support::s3::{Fault, S3};
use crate::support::{Place, Run};

/// Runs the program with its data in a store.
fn run(s3: &S3, place: &Place, scheme: &str, args: &[&str]) -> Run {
    let data = format!("{scheme}://traces/lake");
    s3.run(place, &[&["--data", &data, "--cache-dir", "../cache"], args].concat())
}

#[test]
fn traces_are_read_and_kept_and_asked() {
    for scheme in ["gs", "az"] {
        let s3 = S3::start();
        let (one, other, disk) = (Place::new(), Place::new(), Place::new());
        for rank in 0..3 {
            // The last is larger than what is looked at first.
            let file = step_of_rank(rank, 3, 400, 1200) + &" ".repeat(100_000 * rank as usize);
            s3.put(&format!("job/rank{rank}.json"), &*file);
            disk.write(&format!("job/rank{rank}.json"), file);
        }
        // More than one page of names.
        (0..1200).for_each(|n| _ = s3.put(&format!("job/notes/{n:04}.md"), ""));
        let job = format!("{scheme}://traces/job");
        let made = run(&s3, &one, scheme, &["ingest", &job]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        disk.run(&["ingest", "job"]).done();
        let question = ["metric", "--all", "--format", "csv"];
        let here = disk.run(&question).stdout;
        assert!(here.contains("coll_call_num,"), "{here}");
        assert_eq!(run(&s3, &other, scheme, &question).stdout, here, "{scheme}");
        // A file that changed makes the trace anew, which goes in the place of the other.
        s3.put("job/rank2.json", step_of_rank(2, 3, 700, 1900));
        disk.write("job/rank2.json", step_of_rank(2, 3, 700, 1900));
        disk.run(&["ingest", "job"]).done();
        let again = run(&s3, &one, scheme, &["ingest", &job]);
        assert_eq!(again.code, 0, "{}", again.stderr);
        let here = disk.run(&question).stdout;
        assert_eq!(run(&s3, &other, scheme, &question).stdout, here, "{scheme}");
    }
}

#[test]
fn a_refusal_names_the_credentials_and_tells_none() {
    for scheme in ["gs", "az"] {
        let (s3, place) = (S3::start(), Place::new());
        s3.fails(Fault::Denied);
        let refused = s3.run(&place, &["ingest", &format!("{scheme}://traces/job")]);
        assert_eq!(refused.errors(), ["file-unreadable"], "{}", refused.stderr);
        for part in ["access is denied", "AZURE_STORAGE_ACCOUNT_NAME"] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
    }
}

#[test]
fn a_store_that_is_not_there_cannot_be_reached() {
    let (s3, place) = (S3::start(), Place::new());
    for (variable, url) in [
        // Nobody listens on this port.
        ("AWS_ENDPOINT_URL", "s3://traces/job"),
        ("AZURITE_BLOB_STORAGE_URL", "az://traces/job"),
    ] {
        let mut command = s3.command(&place.input());
        command.env(variable, "http://127.0.0.1:9").env("AWS_MAX_RETRIES", "0");
        let run = Run::of(command.args(["--data", "../data", "ingest", url]));
        assert_eq!(run.errors(), ["file-unreadable"], "{}", run.stderr);
        let said = "the store cannot be reached: Connection refused";
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}
