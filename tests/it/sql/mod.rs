//! Metrics and views: their answers on small tables, on made jobs and on real traces.

mod agreement;
mod beside;
mod catalogue;
mod diagnosed;
mod fits;
mod golden;
mod history;
mod jobs;
mod kernel_classes;
mod known;
mod parts;
mod pinned;
mod properties;
mod reads;
mod scale;
mod simulated;
mod traps;
mod wild;
