//! SHA-256 as hexadecimal digits.

use sha2::{Digest, Sha256};

/// Hexadecimal digits of a finished hash.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// SHA-256 of a text.
pub fn sha256_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
