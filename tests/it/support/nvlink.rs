//! Samples of NVLink as text: JSON that becomes the binary file of the sampler.

use serde_json::Value;

/// Samples of NVML: `{"samples": [[us, field, link, value, return code], ...]}`, with `layout`
/// (version, bytes of a field, bytes of a time) and `cut` (bytes of one more sample) where they are
/// odd.
pub fn encode(text: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(text).expect("the case is JSON");
    let numbers = |list: &Value| -> Vec<i64> {
        let list = list.as_array().expect("a list of numbers");
        list.iter().map(|n| n.as_i64().expect("a number")).collect()
    };
    let layout = value.get("layout").map_or(vec![1, 40, 8], numbers);
    let mut out = b"NVF1".to_vec();
    out.extend(u16::try_from(layout[0]).expect("a version").to_le_bytes());
    out.extend(u16::try_from(layout[1]).expect("a size").to_le_bytes());
    out.extend(i32::try_from(layout[2]).expect("a size").to_le_bytes());
    for sample in value["samples"].as_array().expect("a list of samples") {
        let sample = numbers(sample);
        out.extend(77u64.to_le_bytes());
        out.extend(u32::try_from(sample[1]).expect("a field").to_le_bytes());
        out.extend(u32::try_from(sample[2]).expect("a link").to_le_bytes());
        out.extend(sample[0].to_le_bytes());
        out.extend(0i64.to_le_bytes());
        // An unsigned long long.
        out.extend(3u32.to_le_bytes());
        let code = sample.get(4).copied().unwrap_or_default();
        out.extend(i32::try_from(code).expect("a code").to_le_bytes());
        out.extend(sample[3].to_le_bytes());
    }
    let cut = value.get("cut").and_then(Value::as_u64).unwrap_or_default();
    out.extend(vec![0; usize::try_from(cut).expect("a size")]);
    out
}
