//! Protocol buffers, as far as Perfetto's messages need them: fields written one after the other
//! into bytes. A message inside of another is written beside it first, for its length stands before
//! it.

/// Writes a number in groups of seven bits, the lowest first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a field of an unsigned or small number.
pub fn uint(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Writes a field of a number with a sign (`int64`): the negative ones take ten bytes.
pub fn int(out: &mut Vec<u8>, field: u32, value: i64) {
    uint(out, field, value.cast_unsigned());
}

/// Writes a field of eight bytes (`fixed64`).
pub fn fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field of a `double`.
pub fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed(out, field, value.to_bits());
}

/// Writes a field of text, bytes, or a message that is written already.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_specification() {
        // The examples of protobuf.dev/programming-guides/encoding.
        let mut out = Vec::new();
        uint(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        bytes(&mut out, 2, b"testing");
        assert_eq!(out, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        out.clear();
        int(&mut out, 1, -2);
        assert_eq!(out, [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        out.clear();
        double(&mut out, 1, 1.0);
        assert_eq!(out, [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }
}
