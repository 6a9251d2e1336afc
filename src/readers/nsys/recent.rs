//! A small cache of what was looked up last.

/// Slots of a [`Recent`].
const SLOTS: usize = 512;

/// Remembers what was looked up lately: one slot for each hash, so that nothing made to collide
/// costs more than looking it up again.
pub(crate) struct Recent<K, V>(Vec<Option<(K, V)>>);

impl<K, V> Recent<K, V> {
    pub(crate) fn new() -> Self {
        Self((0..SLOTS).map(|_| None).collect())
    }

    pub(crate) fn slot(&mut self, hash: u64) -> &mut Option<(K, V)> {
        &mut self.0[(hash >> 48) as usize % SLOTS]
    }
}

pub(crate) fn mixed(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

pub(crate) fn hash_of(text: &str) -> u64 {
    text.as_bytes().chunks(8).fold(text.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mixed(hash, u64::from_le_bytes(word))
    })
}
