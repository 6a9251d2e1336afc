//! Meetings of devices that the host sees (`Rendezvous`): what they met for, where no HLO says it.

use std::sync::Arc;

use super::event::Event;
use super::groups::{Groups, Ids};
use super::hlo::{Call, Class, Half, Op};
use super::rows::Meeting;
use super::stats::Key;

/// The meeting that an event is, by its argument: `all reduce RendezvousKey{run_id=RunId: 7,
/// global_devices=[0, 1], ...}`.
pub fn meeting_of(event: &Event<'_>) -> Option<Meeting> {
    if event.name != "Rendezvous" {
        return None;
    }
    let text = event.text(Key::Name)?;
    let (words, rest) = text.split_once(" RendezvousKey{")?;
    let word = words.trim().replace(' ', "-");
    let devices = rest.split_once("global_devices=[").and_then(|(_, rest)| rest.split_once(']'));
    let devices = devices.map(|(list, _)| {
        list.split(',').map_while(|d| d.trim().parse().ok()).collect::<Vec<i64>>()
    });
    let call = Call {
        groups: devices.and_then(|d| Groups::of_lists(vec![d])).filter(|g| *g != Groups::All),
        ids: Ids::Global,
        ..Call::bare(&word)
    };
    let op = Op {
        class: Class::Comm,
        half: Half::Whole,
        bytes: None,
        direction: None,
        call: Some(call),
    };
    let end_ps = event.start_ps + i128::from(event.dur_ps?);
    Some(Meeting { start_ps: event.start_ps, end_ps, call: Arc::new(op) })
}
