//! The groups of metrics and views: areas of metrics by the question that a person asks, and views
//! by subject. Each is a folder of `sql/`.

/// A group of metrics or views.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The name: `@area` of a metric, and the folder of both.
    pub name: &'static str,
    /// The question that the metrics of an area answer, or the matter of the views of a subject.
    pub title: &'static str,
}

const fn group(name: &'static str, title: &'static str) -> Group {
    Group { name, title }
}

/// Areas of metrics, in the order in which lists and documents show them.
pub const AREAS: [Group; 9] = [
    group("speed", "How fast is it?"),
    group("traffic", "Who sends what to whom?"),
    group("bandwidth", "What do the links give?"),
    group("overlap", "What does communication cost?"),
    group("stragglers", "Who holds up the others?"),
    group("devices", "What do the devices do, and why do they idle?"),
    group("phases", "What are the phases of a step?"),
    group("memory", "What fills the memory?"),
    group("inference", "How soon and how fast does a server answer?"),
];

/// Subjects of views, in the order in which documents show them.
pub const SUBJECTS: [Group; 11] = [
    group("calls", "Calls of communication"),
    group("traffic", "Bytes that are communicated, and for which dimension"),
    group("bandwidth", "Bandwidth of calls and links"),
    group("time", "Time of steps, ranks and requests"),
    group("stragglers", "Waiting for others, and clocks"),
    group("kernels", "Kernels, copies and operators"),
    group("stats", "Durations by name and how they spread, as nsys stats gives them"),
    group("launch", "Launches and idle gaps"),
    group("memory", "Memory of the devices"),
    group("model", "What is known of a run, its model and its devices"),
    group("data", "Rows that the program holds itself"),
];

/// The place of a metric's area; areas of a user come after those of the program, by name.
pub fn area_order(area: &str) -> (usize, &str) {
    (AREAS.iter().position(|known| known.name == area).unwrap_or(AREAS.len()), area)
}

/// The heading of an area: its name, and the question where the program knows it.
pub fn area_heading(area: &str) -> String {
    match AREAS.iter().find(|known| known.name == area) {
        Some(known) => format!("{area}: {}", known.title),
        None => area.to_owned(),
    }
}
