//! A file piece by piece: a window that slides over its bytes, cut where a value ends.

use std::io::{self, Read};

use crate::input::json;
use crate::input::place::CHUNK;

/// The largest event or header value that is read: 64 MiB. Real ones end below 1 MB (a recorded
/// call stack); the limit keeps memory bounded against files that were made to exhaust it.
pub const MAX_VALUE_BYTES: usize = 64 << 20;

/// The mark that some tools write in front of UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The way in which the bytes of a source ended.
#[derive(Debug)]
pub enum End {
    /// The regular end.
    Regular,
    /// The compressed stream ends early.
    Truncated,
    /// The compressed stream is damaged.
    Broken(String),
    /// The file cannot be read on: what the operating system says.
    Unreadable(String),
}

/// A piece of the source that was cut off a [`Window`].
pub struct Piece {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Offset in the uncompressed source.
    pub offset: u64,
}

impl Piece {
    /// Bytes in the window.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }
}

/// A sliding window over a reader: `bytes()` are the ones in hand, `consume` moves on.
pub struct Window {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Offset in the uncompressed source of the first byte in hand.
    pub offset: u64,
    end: Option<End>,
    /// Buffers of pieces that are done with.
    spare: Vec<Vec<u8>>,
}

impl Window {
    /// Over a reader.
    pub fn new(reader: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; 2 * CHUNK];
        Self { reader, buffer, from: 0, to: 0, offset: 0, end: None, spare: Vec::new() }
    }

    /// The bytes in hand.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Drops the first `n` bytes in hand.
    pub fn consume(&mut self, n: usize) {
        self.from += n;
        self.offset += n as u64;
    }

    /// Passes over the mark that some tools write in front of UTF-8.
    pub fn skip_mark(&mut self) {
        // A pipe or a member of gzip may give the first bytes one by one.
        while self.bytes().len() < BYTE_ORDER_MARK.len() && self.fill() {}
        if self.bytes().starts_with(BYTE_ORDER_MARK) {
            self.consume(BYTE_ORDER_MARK.len());
        }
    }

    /// Cuts the first `n` bytes in hand off; without a copy of them.
    pub fn cut(&mut self, n: usize) -> Piece {
        let rest = self.to - self.from - n;
        let mut next = self.spare.pop().unwrap_or_default();
        next.resize(next.len().max(2 * CHUNK).max(rest + CHUNK), 0);
        next[..rest].copy_from_slice(&self.buffer[self.from + n..self.to]);
        let buffer = std::mem::replace(&mut self.buffer, next);
        let piece = Piece { buffer, from: self.from, to: self.from + n, offset: self.offset };
        self.from = 0;
        self.to = rest;
        self.offset += n as u64;
        piece
    }

    /// Takes the buffer of a piece for the next ones.
    pub fn recycle(&mut self, piece: Piece) {
        if piece.buffer.len() <= 4 * CHUNK && self.spare.len() < 4 {
            self.spare.push(piece.buffer);
        }
    }

    /// Puts bytes back in front of those in hand.
    pub fn put_back(&mut self, bytes: &[u8]) {
        let mut buffer = Vec::with_capacity(bytes.len() + self.bytes().len() + CHUNK);
        buffer.extend_from_slice(bytes);
        buffer.extend_from_slice(self.bytes());
        self.from = 0;
        self.to = buffer.len();
        self.offset -= bytes.len() as u64;
        self.buffer = buffer;
    }

    /// Reads more; false at the end of the source, see [`Window::end`].
    pub fn fill(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        if self.from > 0 && self.buffer.len() - self.to < CHUNK {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        if self.buffer.len() - self.to < CHUNK {
            self.buffer.resize(self.buffer.len() * 2, 0);
        } else if self.buffer.len() > 16 * CHUNK && self.to < 2 * CHUNK {
            // One huge value is over: give its memory back.
            self.buffer.truncate(4 * CHUNK);
            self.buffer.shrink_to_fit();
        }
        loop {
            match self.reader.read(&mut self.buffer[self.to..]) {
                Ok(0) => self.end = Some(End::Regular),
                Ok(n) => {
                    self.to += n;
                    return true;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    self.end = Some(End::Truncated);
                }
                Err(e) if e.raw_os_error().is_some() => {
                    self.end = Some(End::Unreadable(e.to_string()));
                }
                Err(e) => self.end = Some(End::Broken(e.to_string())),
            }
            return false;
        }
    }

    /// Reads to the end of the source, keeping nothing; the offset of the end.
    pub fn drain(&mut self) -> u64 {
        loop {
            self.consume(self.bytes().len());
            if !self.fill() {
                return self.offset;
            }
        }
    }

    /// The end of the source; None while there may be more.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The next byte that is no white space, not consumed.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let skipped = json::skip_space(self.bytes(), 0);
            self.consume(skipped);
            if let Some(&byte) = self.bytes().first() {
                return Some(byte);
            }
            if !self.fill() {
                return None;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{self, Read};

    use super::*;

    /// Bytes, and behind them a disk that fails (EIO).
    pub(crate) fn torn(bytes: &'static [u8]) -> Box<dyn Read + Send> {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        Box::new(bytes.chain(Fails))
    }

    /// Gives its bytes in pieces of `step`.
    struct Slow(Vec<u8>, usize, usize);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(self.0.len() - self.1).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    /// Fails as it is told after some bytes.
    struct Broken(u8, fn() -> io::Error);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 -= 1;
            if self.0 == 0 {
                return Err((self.1)());
            }
            buffer[0] = self.0;
            Ok(1)
        }
    }

    #[test]
    fn bytes_can_be_put_back() {
        let mut window = Window::new(Box::new(Slow(b"abcdef".to_vec(), 0, 2)));
        while window.fill() {}
        window.consume(4);
        window.put_back(b"cd");
        assert_eq!((window.bytes(), window.offset), (&b"cdef"[..], 2));
        assert!(!window.fill() && matches!(window.end(), Some(End::Regular)));
    }

    #[test]
    fn the_memory_of_a_huge_value_is_given_back() {
        let bytes: Vec<u8> = (0..60 * CHUNK).map(|n| (n % 251) as u8).collect();
        let mut window = Window::new(Box::new(Slow(bytes.clone(), 0, CHUNK)));
        while window.bytes().len() < 20 * CHUNK {
            assert!(window.fill());
        }
        assert!(window.buffer.len() > 16 * CHUNK);
        let mut seen = 0;
        loop {
            let read = window.bytes().len();
            assert!(window.bytes() == &bytes[seen..seen + read], "at {seen}");
            seen += read;
            window.consume(read);
            if !window.fill() {
                break;
            }
        }
        assert_eq!((seen, window.offset), (bytes.len(), bytes.len() as u64));
        assert!(window.buffer.len() <= 4 * CHUNK, "{}", window.buffer.len());
    }

    #[test]
    fn the_end_says_why_there_is_no_more() {
        let ended = |why: fn() -> io::Error| {
            let mut window = Window::new(Box::new(Broken(3, why)));
            while window.fill() {}
            assert_eq!(window.bytes(), [2, 1]);
            window
        };
        let cut = ended(|| io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(cut.end(), Some(End::Truncated)));
        // EIO: what the system says is not of the file's bytes.
        let unreadable = ended(|| io::Error::from_raw_os_error(5));
        assert!(matches!(unreadable.end(), Some(End::Unreadable(_))));
        let broken = ended(|| io::Error::other("a block without an end"));
        assert!(matches!(broken.end(), Some(End::Broken(why)) if why == "a block without an end"));
    }

    #[test]
    fn window_slides_over_more_than_its_size() {
        let data: Vec<u8> = (0..5 * CHUNK).map(|i| (i % 251) as u8 + 1).collect();
        let mut window = Window::new(Box::new(Slow(data.clone(), 0, 700_001)));
        let mut seen = Vec::new();
        loop {
            let n = window.bytes().len().saturating_sub(3);
            seen.extend_from_slice(&window.bytes()[..n]);
            window.consume(n);
            assert_eq!(window.offset as usize, seen.len());
            if !window.fill() {
                break;
            }
        }
        seen.extend_from_slice(window.bytes());
        assert!(seen == data);
        assert!(matches!(window.end(), Some(End::Regular)));
    }
}
