//! Traces in object stores: at a small server that does as it is told, and at moto's.

#[cfg(feature = "object-stores")]
mod data;
#[cfg(feature = "object-stores")]
mod moto;
#[cfg(feature = "object-stores")]
mod odd;
#[cfg(feature = "object-stores")]
mod others;
#[cfg(feature = "object-stores")]
mod plans;
#[cfg(feature = "object-stores")]
mod questions;
#[cfg(feature = "object-stores")]
mod same;

#[cfg(not(feature = "object-stores"))]
#[test]
fn a_program_without_object_stores_says_so() {
    let run = crate::support::Place::new().run(&["ingest", "s3://traces/job"]);
    assert_eq!(run.errors(), ["object-stores-missing"], "{}", run.stderr);
}
