//! What planes and lines are, by their names, and which rank a device is.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::readers::log::{Log, Severity};

/// Devices of a file, each of which has tables of its own: hosts have 16, and tests on CPUs some
/// hundreds.
const MAX_DEVICES: usize = 512;

/// Refuses a file with more devices than can be read.
pub fn not_too_many(devices: usize) -> Result<()> {
    if devices <= MAX_DEVICES {
        return Ok(());
    }
    Err(Error::new("value-too-large", format!("the file holds {devices} devices that compute"))
        .facts(format!("at most {MAX_DEVICES} are read"))
        .hint("profile fewer devices of the process"))
}

/// A plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneKind {
    /// An accelerator: its number in the host.
    Device(i64),
    /// The host.
    Host,
    /// HLO of the programs.
    Metadata,
    /// When the profile began.
    Environment,
    /// Anything else: of the host as a whole.
    Other,
}

impl PlaneKind {
    /// The kind of a plane by its name, before which converters may write the host.
    pub fn of(name: &str) -> Self {
        let at = ["/device:", "/host:"].iter().find_map(|word| name.find(word)).unwrap_or(0);
        let name = &name[at..];
        if name == "/host:metadata" {
            return Self::Metadata;
        }
        if name.starts_with("/host:") {
            return Self::Host;
        }
        if name.ends_with("Task Environment") {
            return Self::Environment;
        }
        let Some(device) = name.strip_prefix("/device:") else { return Self::Other };
        let number = device.split_once(':').map_or("", |(_, number)| number);
        let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        match digits.parse() {
            Ok(number) if !device.starts_with("CUSTOM") => Self::Device(number),
            _ => Self::Other,
        }
    }
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// Operations of a core, which may enclose each other.
    Ops,
    /// A stream of a GPU.
    Stream,
    /// Programs.
    Modules,
    /// Steps, as the profiler sees them.
    Steps,
    /// Anything else on a device: it repeats what is elsewhere.
    Annotation,
    /// A thread.
    Host,
}

impl LineKind {
    /// The kind of a line by its plane and name.
    pub fn of(plane: PlaneKind, name: &str) -> Self {
        if !matches!(plane, PlaneKind::Device(_)) {
            return Self::Host;
        }
        match name {
            "XLA Ops" | "Sparse Core Ops" => Self::Ops,
            "XLA Modules" | "Sparse Core Modules" => Self::Modules,
            "Steps" | "Sparse Core Steps" => Self::Steps,
            _ if name.starts_with("Stream #") => Self::Stream,
            _ => Self::Annotation,
        }
    }
}

/// The ranks of the devices that compute.
#[derive(Debug, Clone, Default)]
pub struct Ranks {
    /// Rank of each device; None where nothing in the file says it.
    pub of_device: BTreeMap<i64, Option<i64>>,
    /// Ranks that are known from outside the file.
    by_hand: BTreeMap<i64, i64>,
    /// Ranks of the job, where the file says it.
    pub world: Option<i64>,
}

impl Ranks {
    /// Whether a device computes.
    pub fn has(&self, device: i64) -> bool {
        self.of_device.contains_key(&device)
    }

    /// Rank of a device. Its number, where nothing says one and the file may hold the whole job;
    /// None where it holds a part, and who is meant by a group is not known.
    pub fn known(&self, device: i64) -> Option<i64> {
        let stated = self.of_device.get(&device).copied().flatten();
        let is_whole = self.world.is_none_or(|world| world <= self.of_device.len() as i64);
        self.by_hand.get(&device).copied().or(stated).or(is_whole.then_some(device))
    }

    /// Takes the number of devices that groups name, where no program says how many ranks there
    /// are.
    pub fn told_world(&mut self, named: Option<i64>, log: &mut Log) {
        if self.world.is_some() {
            return;
        }
        self.world = named.filter(|world| *world > 1);
        let devices = self.of_device.len();
        if let Some(world) = self.world.filter(|world| *world > devices as i64) {
            log.add(Severity::Info, "devices-missing", None, || {
                format!(
                    "groups name {world} devices, and the file holds {devices}; without ranks it is not known who is in a group"
                )
            });
        }
    }

    /// Takes ranks from outside: `first` is that of the first device; `named` counts where there is
    /// one device, and nothing in the file says its rank.
    pub fn told(mut self, first: Option<i64>, named: Option<i64>) -> Self {
        let alone = self.of_device.len() == 1 && self.of_device.values().all(Option::is_none);
        if let Some(first) = first.or(named.filter(|_| alone)) {
            self.by_hand = self.of_device.keys().copied().zip(first..).collect();
        }
        self
    }

    /// Finds them. `devices` are those that compute, with the number in the job that the profiler
    /// gives each, if any; `assigned` says which device of the job runs each rank; `stated` which
    /// rank a device of this host runs. `local` is the number of devices that the host has.
    pub fn find(
        devices: &BTreeMap<i64, Option<i64>>,
        assigned: &[Vec<i64>],
        stated: &BTreeMap<i64, i64>,
        local: Option<i64>,
    ) -> Self {
        // The program with most devices; others may run on a part of them.
        let largest = assigned.iter().max_by_key(|a| a.len());
        let position = |device: i64| -> Option<i64> {
            largest?.iter().position(|d| *d == device).map(|at| at as i64)
        };
        let world = largest.map(|a| a.len() as i64).filter(|n| *n > 1);
        // Numbers in this host are numbers in the job when the host has all devices of the job.
        let is_whole = local.is_none_or(|local| world.is_none_or(|world| world <= local));
        let of_device = devices
            .iter()
            .map(|(device, global)| {
                let rank = match (stated.get(device), global) {
                    (Some(rank), _) => Some(*rank),
                    (_, Some(global)) => position(*global).or(Some(*global)),
                    _ if is_whole && world.is_some() => position(*device),
                    _ => None,
                };
                (*device, rank)
            })
            .collect::<BTreeMap<_, _>>();
        // One rank that two devices claim is none.
        let mut ranks: Vec<i64> = of_device.values().flatten().copied().collect();
        ranks.sort_unstable();
        let distinct = ranks.windows(2).all(|w| w[0] != w[1]) && ranks.len() == of_device.len();
        let of_device =
            if distinct { of_device } else { of_device.into_keys().map(|d| (d, None)).collect() };
        Self { of_device, world, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_and_lines_by_name() {
        for (name, kind) in [
            ("/device:TPU:3", PlaneKind::Device(3)),
            ("/device:TPU:3 SparseCore 1", PlaneKind::Device(3)),
            ("host7 /device:GPU:0", PlaneKind::Device(0)),
            ("/device:CUSTOM:Megascale Trace", PlaneKind::Other),
            ("/host:CPU", PlaneKind::Host),
            ("/host:metadata", PlaneKind::Metadata),
            ("Task Environment", PlaneKind::Environment),
            ("#Chip0 non-core", PlaneKind::Other),
            ("", PlaneKind::Other),
        ] {
            assert_eq!(PlaneKind::of(name), kind, "{name}");
        }
        let device = PlaneKind::Device(0);
        assert_eq!(LineKind::of(device, "XLA Ops"), LineKind::Ops);
        assert_eq!(LineKind::of(device, "XLA Ops - from #3"), LineKind::Annotation);
        assert_eq!(LineKind::of(device, "Stream #17(Kernel)"), LineKind::Stream);
        assert_eq!(LineKind::of(PlaneKind::Host, "XLA Ops"), LineKind::Host);
    }

    #[test]
    fn ranks_are_places_in_the_assignment() {
        let find =
            |devices: &[(i64, Option<i64>)], assigned: &[&[i64]], stated: &[(i64, i64)], local| {
                let assigned: Vec<Vec<i64>> = assigned.iter().map(|a| a.to_vec()).collect();
                let devices = devices.iter().copied().collect();
                let stated = stated.iter().copied().collect();
                let ranks = Ranks::find(&devices, &assigned, &stated, local);
                (ranks.of_device.into_values().collect::<Vec<_>>(), ranks.world)
            };
        let ranks = Ranks::find(&BTreeMap::from([(3, None)]), &[], &BTreeMap::new(), None);
        assert_eq!([2, 3].map(|device| ranks.has(device)), [false, true]);
        let four: &[i64] = &[0, 1, 2048, 2049];
        // The second process of two.
        let second = [(2048, None), (2049, None)];
        assert_eq!(find(&second, &[&[0], four], &[], None), (vec![Some(2), Some(3)], Some(4)));
        // Chips whose number in the job is known.
        let chips = [(0, Some(2)), (1, Some(3))];
        assert_eq!(find(&chips, &[&[1, 0, 3, 2]], &[], Some(2)), (vec![Some(3), Some(2)], Some(4)));
        // A host with two of four devices says nothing of which they are.
        let two = [(0, None), (1, None)];
        assert_eq!(find(&two, &[&[0, 1, 2, 3]], &[], Some(2)), (vec![None, None], Some(4)));
        assert_eq!(find(&two, &[&[0, 1, 2, 3]], &[(0, 2), (1, 3)], Some(2)).0, [Some(2), Some(3)]);
        assert_eq!(find(&two, &[], &[], None), (vec![None, None], None));
        // One rank that two devices claim is none.
        assert_eq!(find(&two, &[&[0, 1]], &[(0, 1)], None).0, [None, None]);
    }

    #[test]
    fn a_rank_that_the_name_says_is_that_of_the_only_device() {
        let told = |devices: &[(i64, Option<i64>)], first, named| {
            let devices = devices.iter().copied().collect();
            let ranks = Ranks::find(&devices, &[], &BTreeMap::new(), None).told(first, named);
            ranks.by_hand.into_values().collect::<Vec<_>>()
        };
        let (one, two) = ([(3, None)], [(3, None), (4, None)]);
        assert_eq!(told(&one, None, Some(7)), [7]);
        assert_eq!(told(&two, None, Some(7)), [0; 0]);
        assert_eq!(told(&two, Some(7), None), [7, 8]);
        // The file says it.
        let stated =
            Ranks::find(&BTreeMap::from([(3, None)]), &[], &BTreeMap::from([(3, 5)]), None);
        assert!(stated.told(None, Some(7)).by_hand.is_empty());
    }

    #[test]
    fn groups_of_one_device_say_nothing_of_the_others() {
        let told = |named: Option<i64>| {
            let devices = BTreeMap::from([(0, None), (1, None)]);
            let mut ranks = Ranks::find(&devices, &[], &BTreeMap::new(), None);
            ranks.told_world(named, &mut Log::default());
            ranks.world
        };
        assert_eq!([None, Some(1), Some(2), Some(4)].map(told), [None, None, Some(2), Some(4)]);
        // What the file says counts.
        let mut ranks = Ranks { world: Some(8), ..Ranks::default() };
        ranks.told_world(Some(4), &mut Log::default());
        assert_eq!(ranks.world, Some(8));
    }

    #[test]
    fn the_most_devices_of_a_file() {
        assert!(not_too_many(MAX_DEVICES).is_ok());
        let error = not_too_many(MAX_DEVICES + 1).expect_err("these are too many");
        assert_eq!(error.code, "value-too-large");
    }
}
