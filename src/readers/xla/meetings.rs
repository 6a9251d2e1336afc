//! Meetings of devices that the host sees (`Rendezvous`): what they met for, where no HLO says it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::readers::xla::event::Event;
use crate::readers::xla::hlo::groups::{Groups, Ids};
use crate::readers::xla::hlo::{Call, Class, Half, Op};
use crate::readers::xla::rows::Meeting;
use crate::readers::xla::stats::Key;

/// Calls that are remembered by their text.
const MAX_CALLS: usize = 100_000;

/// Finds meetings; those for the same call share it.
#[derive(Default)]
pub struct Meetings {
    calls: HashMap<(String, String), Arc<Op>>,
}

impl Meetings {
    /// The meeting that an event is, by its argument: `all reduce RendezvousKey{run_id=RunId: 7,
    /// global_devices=[0, 1], ...}`.
    pub fn of(&mut self, event: &Event<'_>) -> Option<Meeting> {
        if event.name != "Rendezvous" {
            return None;
        }
        let end_ps = event.start_ps + i128::from(event.dur_ps?);
        let text = event.text(Key::Name)?;
        let (words, rest) = text.split_once(" RendezvousKey{")?;
        let list = rest.split_once("global_devices=[").and_then(|(_, rest)| rest.split_once(']'));
        let key = (words.to_owned(), list.map(|(list, _)| list.to_owned()).unwrap_or_default());
        let call = match self.calls.get(&key) {
            Some(call) => call.clone(),
            None => {
                let call = Arc::new(op_of(&key.0, list.map(|(list, _)| list)));
                if self.calls.len() < MAX_CALLS {
                    self.calls.insert(key, call.clone());
                }
                call
            }
        };
        Some(Meeting { start_ps: event.start_ps, end_ps, call })
    }
}

fn op_of(words: &str, devices: Option<&str>) -> Op {
    let devices = devices
        .map(|list| list.split(',').map_while(|d| d.trim().parse().ok()).collect::<Vec<i64>>());
    let call = Call {
        groups: devices.and_then(|d| Groups::of_lists(vec![d])).filter(|g| *g != Groups::All),
        ids: Ids::Global,
        ..Call::bare(&words.trim().replace(' ', "-"))
    };
    Op { class: Class::Comm, half: Half::Whole, bytes: None, direction: None, call: Some(call) }
}
