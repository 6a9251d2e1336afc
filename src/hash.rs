//! SHA-256 as hexadecimal digits.

use sha2::{Digest, Sha256};

/// Hexadecimal digits of a finished hash.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for; None for other text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

/// SHA-256 of a text.
pub fn sha256_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
