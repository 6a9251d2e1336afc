//! Sizes of values: element types and shapes, as numbers in the HLO of a module and as text in
//! names and arguments.

use crate::readers::xla::hlo::proto::Shape as Proto;

/// Widths in bits of the element types, by their names in HLO text.
const TYPES: [(&str, i64); 33] = [
    ("pred", 8),
    ("s1", 1),
    ("s2", 2),
    ("s4", 4),
    ("s8", 8),
    ("s16", 16),
    ("s32", 32),
    ("s64", 64),
    ("u1", 1),
    ("u2", 2),
    ("u4", 4),
    ("u8", 8),
    ("u16", 16),
    ("u32", 32),
    ("u64", 64),
    ("f16", 16),
    ("bf16", 16),
    ("f32", 32),
    ("f64", 64),
    ("c64", 64),
    ("c128", 128),
    ("f8e5m2", 8),
    ("f8e4m3", 8),
    ("f8e4m3fn", 8),
    ("f8e4m3b11fnuz", 8),
    ("f8e5m2fnuz", 8),
    ("f8e4m3fnuz", 8),
    ("f8e3m4", 8),
    ("f8e8m0fnu", 8),
    ("f4e2m1fn", 4),
    ("token", 0),
    ("opaque", 0),
    ("s128", 128),
];

/// Names of the element types by their numbers (`PrimitiveType` of `xla_data.proto`).
const NUMBERS: [(i32, &str); 34] = [
    (1, "pred"),
    (2, "s8"),
    (3, "s16"),
    (4, "s32"),
    (5, "s64"),
    (6, "u8"),
    (7, "u16"),
    (8, "u32"),
    (9, "u64"),
    (10, "f16"),
    (11, "f32"),
    (12, "f64"),
    (13, "tuple"),
    (14, "opaque"),
    (15, "c64"),
    (16, "bf16"),
    (17, "token"),
    (18, "c128"),
    (19, "f8e5m2"),
    (20, "f8e4m3fn"),
    (21, "s4"),
    (22, "u4"),
    (23, "f8e4m3b11fnuz"),
    (24, "f8e5m2fnuz"),
    (25, "f8e4m3fnuz"),
    (26, "s2"),
    (27, "u2"),
    (28, "f8e4m3"),
    (29, "f8e3m4"),
    (30, "s1"),
    (31, "u1"),
    (32, "f4e2m1fn"),
    (33, "f8e8m0fnu"),
    (34, "s128"),
];

/// An array, or several in a tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Element type and number of elements.
    Array(String, i64),
    /// Parts.
    Tuple(Vec<Shape>),
}

/// What a value holds in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Size {
    /// The only element type.
    pub dtype: Option<String>,
    /// Elements.
    pub elems: Option<i64>,
    /// Bytes; None where the type is not known.
    pub bytes: Option<i64>,
}

impl Shape {
    /// The shape in the HLO of a module; None where it is nested too deep or overflows.
    pub fn of_proto(shape: &Proto) -> Option<Self> {
        let name = NUMBERS.iter().find(|(n, _)| *n == shape.element_type).map(|(_, name)| *name);
        if name == Some("tuple") {
            let parts: Option<Vec<Self>> = shape.tuple.iter().map(Self::of_proto).collect();
            return Some(Self::Tuple(parts?));
        }
        let elems = shape
            .dimensions
            .iter()
            .try_fold(1_i64, |n, d| n.checked_mul(*d).filter(|n| *n >= 0))?;
        let name = name.map_or_else(|| format!("type{}", shape.element_type), str::to_owned);
        Some(Self::Array(name, elems))
    }

    /// Reads the shape at the front of a text, as HLO prints it: `f32[5,<=8]{1,0:T(8,128)}`,
    /// `(f32[2]{0}, /*index=1*/u32[])`. Returns it with the rest of the text.
    pub fn of_text(text: &str) -> Option<(Self, &str)> {
        Self::nested(text, 0)
    }

    fn nested(text: &str, depth: usize) -> Option<(Self, &str)> {
        let text = skip_comments(text);
        if let Some(mut rest) = text.strip_prefix('(') {
            if depth > 16 {
                return None;
            }
            let mut parts = Vec::new();
            loop {
                rest = skip_comments(rest);
                if let Some(after) = rest.strip_prefix(')') {
                    return Some((Self::Tuple(parts), after));
                }
                let (part, after) = Self::nested(rest, depth + 1)?;
                parts.push(part);
                rest = skip_comments(after);
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
        }
        let name = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (ty, rest) = text.split_at(name);
        let rest = rest.strip_prefix('[').filter(|_| !ty.is_empty())?;
        let (dims, mut rest) = rest.split_once(']')?;
        let mut elems = 1_i64;
        for dim in dims.split(',').filter(|d| !d.trim().is_empty()) {
            // A dynamic dimension says its bound.
            let dim: i64 = dim.trim().trim_start_matches("<=").parse().ok()?;
            elems = elems.checked_mul(dim).filter(|n| *n >= 0)?;
        }
        if rest.starts_with('{') {
            rest = &rest[balanced(rest)?..];
        }
        Some((Self::Array(ty.to_owned(), elems), rest))
    }

    /// The size of what the value holds in all: the parts of a tuple summed.
    pub fn size(&self) -> Size {
        match self {
            Self::Array(ty, elems) => {
                let bits = TYPES.iter().find(|(name, _)| name == ty).map(|(_, bits)| *bits);
                let bytes = bits.and_then(|bits| {
                    let bits = i128::from(*elems) * i128::from(bits);
                    i64::try_from((bits + 7) / 8).ok()
                });
                Size { dtype: Some(ty.clone()), elems: Some(*elems), bytes }
            }
            Self::Tuple(parts) => Size::sum(parts.iter().map(Self::size)),
        }
    }

    /// The parts of a tuple.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Array(..) => std::slice::from_ref(self),
            Self::Tuple(parts) => parts,
        }
    }
}

impl Size {
    /// The size of several values together.
    pub fn sum(sizes: impl Iterator<Item = Self>) -> Self {
        let mut out: Option<Self> = None;
        for size in sizes.filter(|s| s.dtype.as_deref() != Some("token")) {
            out = Some(match out {
                None => size,
                Some(sum) => Self {
                    dtype: sum.dtype.filter(|d| Some(d) == size.dtype.as_ref()),
                    elems: sum.elems.zip(size.elems).and_then(|(a, b)| a.checked_add(b)),
                    bytes: sum.bytes.zip(size.bytes).and_then(|(a, b)| a.checked_add(b)),
                },
            });
        }
        out.unwrap_or_default()
    }
}

/// The text without space and comments at its front.
fn skip_comments(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(inner) = text.strip_prefix("/*") {
        let Some((_, after)) = inner.split_once("*/") else { return text };
        text = after.trim_start();
    }
    text
}

/// Length of what is in brackets at the front of a text, the brackets included.
pub fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> (Option<i64>, Option<String>) {
        let (shape, rest) = Shape::of_text(text).unwrap_or_else(|| panic!("{text} is a shape"));
        assert_eq!(rest, "", "{text}");
        let size = shape.size();
        (size.bytes, size.dtype)
    }

    #[test]
    fn shapes_in_text() {
        let f32 = Some("f32".to_owned());
        assert_eq!(bytes("f32[5,1024,1024,256]{3,2,1,0:T(8,128)}").0, Some(5_368_709_120));
        assert_eq!(bytes("f32[]"), (Some(4), f32.clone()));
        assert_eq!(bytes("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}").0, Some(2048));
        assert_eq!(bytes("(f32[2]{0}, /*index=1*/f32[3]{0})"), (Some(20), f32));
        assert_eq!(bytes("(f32[2], u32[]{:S(2)})"), (Some(12), None));
        assert_eq!(bytes("f32[<=8,2]").0, Some(64));
        assert_eq!(bytes("s4[3]").0, Some(2));
        assert_eq!(bytes("f8e4m3fn[7]").0, Some(7));
        assert_eq!(bytes("zz9[7]").0, None);
        assert_eq!(bytes("pred[0]").0, Some(0));
        assert_eq!(bytes("((f32[2]), token[])").0, Some(8));
        for wrong in ["", "f32", "[2]", "f32[", "f32[a]", "f32[-1]", "f32[2]{", "(f32[2]"] {
            assert_eq!(Shape::of_text(wrong), None, "{wrong}");
        }
        assert_eq!(Shape::of_text("f32[9223372036854775807,2]"), None);
        assert_eq!(Shape::of_text(&"(".repeat(100_000)), None);
        // Seventeen tuples inside each other are the most.
        let nested = |n: usize| format!("{}f32[2]{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(bytes(&nested(17)).0, Some(8));
        assert_eq!(Shape::of_text(&nested(18)), None);
    }
}
