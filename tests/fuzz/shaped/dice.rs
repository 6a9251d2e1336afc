//! Choices out of bytes.

/// Numbers that have broken programs before.
const EXTREMES: [i64; 16] = [
    i64::MIN,
    i64::MIN + 1,
    i64::MAX,
    i64::MAX - 1,
    -1,
    i32::MIN as i64,
    i32::MAX as i64,
    1 << 31,
    u32::MAX as i64,
    1 << 32,
    1 << 53,
    (1 << 53) + 1,
    1 << 61,
    255,
    256,
    1_790_000_000_000_000_000,
];

/// Choices, each taken from the bytes that are left. Where none are left the first one is taken,
/// so that every shape comes to an end.
pub struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, which is at most 65,536.
    pub fn below(&mut self, n: usize) -> usize {
        let low = usize::from(self.byte());
        let chosen = if n > 256 { low | usize::from(self.byte()) << 8 } else { low };
        chosen % n.max(1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// An integer, most of them small.
    pub fn number(&mut self) -> i64 {
        match self.below(8) {
            0..=3 => self.below(64) as i64,
            4 => self.below(1 << 16) as i64,
            5 => -(self.below(256) as i64),
            6 => self.pick(&EXTREMES),
            _ => i64::from_le_bytes([(); 8].map(|()| self.byte())),
        }
    }

    /// A double, infinity and NaN among them.
    pub fn double(&mut self) -> f64 {
        match self.below(4) {
            0 => self.below(1000) as f64 / 8.0,
            1 => self.pick(&[0.0, -0.0, 0.1, 1e300, 5e-324, f64::INFINITY, f64::NAN]),
            2 => self.number() as f64,
            _ => f64::from_bits(self.number() as u64),
        }
    }

    /// Text: words of traces, and what is awkward to write.
    pub fn text(&mut self) -> String {
        const WORDS: [&str; 16] = [
            "",
            "a",
            "default",
            "0",
            "-1",
            "true",
            "[0, 1]",
            "ProfilerStep#3",
            "nccl:all_reduce",
            "quote \" and \\ and \u{7} and \u{fffd}",
            "é中😀",
            "'; DROP TABLE ranks; --",
            "</script>",
            "../../etc",
            "NaN",
            "1e5",
        ];
        let mut out = String::new();
        for _ in 0..=self.below(2) {
            out += self.pick(&WORDS);
        }
        if self.one_in(16) {
            let times = self.below(300);
            out = out.repeat(times);
        }
        out
    }

    /// Up to so many bytes.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.byte()).collect()
    }
}
