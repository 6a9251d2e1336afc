//! Random numbers, the same on any machine.

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    /// Numbers of one seed; further words make them others.
    pub fn new(seeds: &[u64]) -> Self {
        let mut dice = Self(0x5eed);
        for seed in seeds {
            dice.0 ^= seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below another.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An integer of a range, its ends among them.
    pub fn of(&mut self, first: i64, last: i64) -> i64 {
        first + self.below((last - first + 1) as u64) as i64
    }

    /// Yes, so many times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
