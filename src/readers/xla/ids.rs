//! Tables of a profile by the numbers of their entries.

use std::collections::HashMap;

/// Ids below this are places in a list.
const DENSE: usize = 1 << 20;

/// A range of bytes of the file.
pub type Range = (u64, u64);

/// Things by their ids, which mostly count from 0.
#[derive(Debug)]
pub struct Ids<T> {
    dense: Vec<Option<T>>,
    sparse: HashMap<i64, T>,
}

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Self { dense: Vec::new(), sparse: HashMap::new() }
    }
}

impl<T> Ids<T> {
    /// Takes a thing; the last of an id counts.
    pub fn insert(&mut self, id: i64, value: T) {
        match usize::try_from(id) {
            Ok(at) if at < DENSE => {
                if at >= self.dense.len() {
                    self.dense.resize_with(at + 1, || None);
                }
                self.dense[at] = Some(value);
            }
            _ => _ = self.sparse.insert(id, value),
        }
    }

    /// The thing of an id.
    pub fn get(&self, id: i64) -> Option<&T> {
        match usize::try_from(id) {
            Ok(at) if at < DENSE => self.dense.get(at)?.as_ref(),
            _ => self.sparse.get(&id),
        }
    }

    /// All things with their ids.
    pub fn ids(&self) -> impl Iterator<Item = (i64, &T)> {
        let dense = self.dense.iter().enumerate();
        let dense = dense.filter_map(|(id, thing)| Some((id as i64, thing.as_ref()?)));
        dense.chain(self.sparse.iter().map(|(id, thing)| (*id, thing)))
    }

    /// All things.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.dense.iter().flatten().chain(self.sparse.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ids_are_no_places() {
        let mut ids = Ids::default();
        let first = DENSE as i64;
        for id in [3, first - 1, first, i64::MAX, -1] {
            ids.insert(id, id);
        }
        assert_eq!((ids.dense.len(), ids.sparse.len()), (DENSE, 3));
        for id in [3, first - 1, first, i64::MAX, -1] {
            assert_eq!(ids.get(id), Some(&id));
        }
        assert_eq!(ids.get(4).or(ids.get(first + 1)).or(ids.get(-2)), None);
        ids.insert(3, 7);
        assert_eq!(ids.get(3), Some(&7));
    }
}
