//! The header of a Kineto trace: what stands beside its events.

use serde_json::Value;

use crate::readers::share::{RankRow, capability};

/// Members of the header that `ranks` and the split use.
pub struct Header<'a>(pub &'a [(String, Value)]);

impl Header<'_> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn distributed(&self, key: &str) -> Option<&Value> {
        self.get("distributedInfo")?.get(key)
    }

    /// `distributedInfo.rank`, when it is an integer from 0 on.
    pub fn rank(&self) -> Option<i64> {
        self.distributed("rank")?.as_i64().filter(|r| (0..=10_000_000).contains(r))
    }

    /// `distributedInfo.world_size`, when it is an integer from 1 on.
    pub fn world_size(&self) -> Option<i64> {
        self.distributed("world_size")?.as_i64().filter(|w| (1..=10_000_000).contains(w))
    }

    /// Whether `distributedInfo` states a rank or world size that cannot be one.
    pub fn is_odd(&self) -> bool {
        let odd = |key, ok: bool| self.distributed(key).is_some_and(|v| !v.is_null()) && !ok;
        odd("rank", self.rank().is_some()) || odd("world_size", self.world_size().is_some())
    }

    fn text(&self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::String(s) if !s.is_empty() => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        }
    }

    /// The entry of `deviceProperties` for a device: by id, else the only one (containers renumber
    /// devices, and the list then holds id 0 alone).
    pub fn device(&self, id: Option<i64>) -> Option<&Value> {
        let list = self.get("deviceProperties")?.as_array()?;
        list.iter()
            .find(|d| id.is_some() && d.get("id").and_then(Value::as_i64) == id)
            .or(if list.len() == 1 { list.first() } else { None })
    }

    /// The name of a device; NULL where the trace leaves it empty.
    pub fn device_name(&self, id: Option<i64>) -> Option<String> {
        self.text(self.device(id)?.get("name"))
    }

    /// The row of the table `ranks` of the rank whose device this is.
    pub fn row(&self, device: Option<i64>, base_ns: Option<i64>) -> RankRow {
        let number =
            |key: &str| self.device(device).and_then(|d| d.get(key)).and_then(Value::as_i64);
        RankRow {
            host: self.host(),
            device_name: self.device_name(device),
            sm_count: number("numSms"),
            memory_bytes: number("totalGlobalMem"),
            compute_capability: capability(number("computeMajor"), number("computeMinor")),
            world_size: self.world_size(),
            backend: self.text(self.distributed("backend")),
            nccl_version: self.text(self.distributed("nccl_version")),
            base_ns,
        }
    }

    /// The host: `host_name` or `hostname`.
    pub fn host(&self) -> Option<String> {
        self.text(self.get("host_name").or(self.get("hostname")))
    }
}
