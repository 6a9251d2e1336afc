//! `trace_collection/collect/one_gpu.sh` as a user runs it, over commands that need no GPU: the
//! environment of each process, MPS from start to end, and what a process that fails does.

use std::path::Path;
use std::process::Command;

use crate::support::{Place, examples};

/// What stands for MPS: it writes down how it is called and what it is told.
const MPS: &str = "#!/bin/sh
if [ $# -gt 0 ]; then echo \"$1 $CUDA_MPS_PIPE_DIRECTORY\" >>\"$SAID\"; else cat >>\"$SAID\"; fi
";

/// The script, in the folder of a place, with a control of MPS that writes into `said`.
fn one_gpu(place: &Place, args: &[&str]) -> (i32, String) {
    let folder = place.input();
    let (tools, said) = (folder.join("tools"), folder.join("said"));
    place.program("tools/nvidia-cuda-mps-control", MPS);
    std::fs::write(&said, "").expect("it is written");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("a path"));
    let status = Command::new("bash")
        .arg(examples().join("collect/one_gpu.sh"))
        .args(args)
        .current_dir(&folder)
        .env("PATH", path)
        .env("SAID", &said)
        .env_remove("CUDA_MPS_PIPE_DIRECTORY")
        .output()
        .expect("bash can be started")
        .status;
    (status.code().unwrap_or(-1), std::fs::read_to_string(said).expect("it was written"))
}

/// What the processes wrote, in the order of their ranks.
fn written(folder: &Path, ranks: usize) -> Vec<String> {
    let of = |rank| std::fs::read_to_string(folder.join(format!("rank{rank}")));
    (0..ranks).map(|rank| of(rank).expect("it was written").trim().to_owned()).collect()
}

#[test]
fn each_process_is_a_rank_and_another_host() {
    let place = Place::new();
    let job = r#"echo "$RANK $LOCAL_RANK $WORLD_SIZE $NCCL_HOSTID $NCCL_SOCKET_IFNAME $1" >rank$RANK
[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] && echo "$CUDA_MPS_PIPE_DIRECTORY" >pipe"#;
    let (code, said) = one_gpu(&place, &["3", "sh", "-c", job, "job", "a b"]);
    assert_eq!(code, 0);
    let expected = ["0 0 3 rank0 lo a b", "1 0 3 rank1 lo a b", "2 0 3 rank2 lo a b"];
    assert_eq!(written(&place.input(), 3), expected);
    // MPS begins with the folder that the processes know, is told to end, and leaves nothing.
    let pipe = std::fs::read_to_string(place.input().join("pipe")).expect("there was one");
    assert_eq!(said, format!("-d {pipe}quit\n"));
    assert!(!Path::new(pipe.trim()).exists(), "{pipe}");
}

#[test]
fn a_rank_that_fails_ends_the_others() {
    let place = Place::new();
    let (code, said) =
        one_gpu(&place, &["3", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 60"]);
    assert_eq!(code, 7);
    assert!(said.ends_with("quit\n"), "{said}");
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    let place = Place::new();
    for args in [&[][..], &["2"], &["0", "true"], &["two", "true"], &["2000", "true"]] {
        assert_eq!(one_gpu(&place, args), (2, String::new()), "{args:?}");
    }
}
