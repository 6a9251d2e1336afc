-- @view     device_peaks
-- @summary  What accelerators can do at most, by name: memory bandwidth, and dense matrix
--           operations per second of one device by precision.
-- @column   priority INTEGER dim - | Of the patterns that a name matches, the lowest counts, of
--           equals the longest pattern.
-- @column   pattern VARCHAR dim - | Pattern of LIKE for the name of the device in lower case; _ is
--           any one character.
-- @column   hbm_gb_per_s DOUBLE value gb_per_s | Peak bandwidth of the memory of one device.
-- @column   bf16_flops_per_s DOUBLE value flops_per_s | Peak rate of dense bfloat16 matrix
--           operations; NULL where the device has none, or the vendor says none. So too the next
--           ones.
-- @column   fp16_flops_per_s DOUBLE value flops_per_s | The same in float16.
-- @column   tf32_flops_per_s DOUBLE value flops_per_s | The same in TF32 (xf32 of AMD).
-- @column   fp32_flops_per_s DOUBLE value flops_per_s | The same in float32, without matrix units
--           where the device has none for it.
-- @column   fp8_flops_per_s DOUBLE value flops_per_s | The same in 8-bit floats.
-- @column   int8_flops_per_s DOUBLE value flops_per_s | The same in 8-bit integers.
-- @column   vendor_source VARCHAR value - | Where the vendor says so.
-- @caveat   Variants of one name differ (memory, power); where a name does not say which, the row
--           is the common one. Data sheets of NVIDIA since the A100 print rates with sparsity:
--           these are half of them.
-- @caveat   A device is what the driver lists as one: of an MI250 one of its two dies, of a TPU a
--           chip.
-- @source   data sheets of NVIDIA and AMD, and the pages of Cloud TPU, as named in each row
SELECT
    priority,
    pattern,
    CAST(hbm_gb_per_s AS DOUBLE) AS hbm_gb_per_s,
    1e12 * bf16_tera AS bf16_flops_per_s,
    1e12 * fp16_tera AS fp16_flops_per_s,
    1e12 * tf32_tera AS tf32_flops_per_s,
    1e12 * fp32_tera AS fp32_flops_per_s,
    1e12 * fp8_tera AS fp8_flops_per_s,
    1e12 * int8_tera AS int8_flops_per_s,
    vendor_source
FROM (
    VALUES
        (20, '%b300%', 8000.0, 2250.0, 2250.0, 1125.0, 75.0, 4500.0, NULL, 'NVIDIA HGX B300 (of 8, sparse: 36 PFLOPS in bf16, 18 in TF32, 72 in FP8)'),
        (10, '%gb300%', 8000.0, 2500.0, 2500.0, 1250.0, 80.0, 5000.0, NULL, 'NVIDIA GB300 NVL72 (of 72, sparse: 360 PFLOPS in bf16, 180 in TF32, 720 in FP8)'),
        (20, '%b200%', 8000.0, 2250.0, 2250.0, 1100.0, 75.0, 4500.0, 4500.0, 'NVIDIA DGX B200 (of 8: 64 TB/s) and HGX B200 (of one, sparse: 4.5 PFLOPS in bf16, 2.2 in TF32, 9 in FP8 and INT8)'),
        (10, '%gb200%', 8000.0, 2500.0, 2500.0, 1250.0, 80.0, 5000.0, 5000.0, 'NVIDIA GB200 NVL72 (of one, sparse: 5 PFLOPS in bf16, 2.5 in TF32, 10 in FP8 and INT8)'),
        (20, '%h200%', 4800.0, 989.4, 989.4, 494.7, 66.9, 1978.9, 1978.9, 'NVIDIA H200 data sheet, SXM'),
        (10, '%h200 nvl%', 4800.0, 835.5, 835.5, 417.5, 60.0, 1670.5, 1670.5, 'NVIDIA H200 data sheet, NVL'),
        (10, '%gh200%', 4000.0, 989.4, 989.4, 494.7, 66.9, 1978.9, 1978.9, 'NVIDIA GH200 data sheet, HBM3'),
        (5, '%gh200 144g%', 4900.0, 989.4, 989.4, 494.7, 66.9, 1978.9, 1978.9, 'NVIDIA GH200 data sheet, HBM3e'),
        (10, '%h100 nvl%', 3900.0, 835.5, 835.5, 417.5, 60.0, 1670.5, 1670.5, 'NVIDIA H100 data sheet, NVL'),
        (10, '%h100 pcie%', 2000.0, 756.0, 756.0, 378.0, 51.2, 1513.0, 1513.0, 'NVIDIA H100 white paper, PCIe'),
        (20, '%h100%', 3350.0, 989.4, 989.4, 494.7, 66.9, 1978.9, 1978.9, 'NVIDIA H100 white paper, SXM'),
        (10, '%a100_sxm4_40gb%', 1555.0, 312.0, 312.0, 156.0, 19.5, NULL, 624.0, 'NVIDIA A100 data sheet, 40 GB'),
        (10, '%a100_pcie_40gb%', 1555.0, 312.0, 312.0, 156.0, 19.5, NULL, 624.0, 'NVIDIA A100 data sheet, 40 GB'),
        (10, '%a100_40gb%', 1555.0, 312.0, 312.0, 156.0, 19.5, NULL, 624.0, 'NVIDIA A100 data sheet, 40 GB'),
        (10, '%a100 80gb pcie%', 1935.0, 312.0, 312.0, 156.0, 19.5, NULL, 624.0, 'NVIDIA A100 data sheet, 80 GB PCIe'),
        (20, '%a100%', 2039.0, 312.0, 312.0, 156.0, 19.5, NULL, 624.0, 'NVIDIA A100 data sheet, 80 GB SXM'),
        (20, '%nvidia_a10', 600.0, 125.0, 125.0, 62.5, 31.2, NULL, 250.0, 'NVIDIA A10 data sheet'),
        (20, '%nvidia_a30', 933.0, 165.0, 165.0, 82.0, 10.3, NULL, 330.0, 'NVIDIA A30 data sheet'),
        (20, '%nvidia_a40', 696.0, 149.7, 149.7, 74.8, 37.4, NULL, 299.3, 'NVIDIA A40 data sheet'),
        (20, '%v100%', 900.0, NULL, 125.0, NULL, 15.7, NULL, NULL, 'NVIDIA V100 data sheet, SXM2'),
        (10, '%v100_pcie%', 900.0, NULL, 112.0, NULL, 14.0, NULL, NULL, 'NVIDIA V100 data sheet, PCIe'),
        (10, '%v100s%', 1134.0, NULL, 130.0, NULL, 16.4, NULL, NULL, 'NVIDIA V100 data sheet, V100S'),
        (20, '%tesla_t4', 320.0, NULL, 65.0, NULL, 8.1, NULL, 130.0, 'NVIDIA T4 data sheet'),
        (20, '%l40s%', 864.0, 362.0, 362.0, 183.0, 91.6, 733.0, 733.0, 'NVIDIA L40S data sheet'),
        (20, '%nvidia_l4', 300.0, 121.0, 121.0, 60.0, 30.3, 242.5, 242.5, 'NVIDIA L4 data sheet'),
        (20, '%mi210%', 1638.4, 181.0, 181.0, NULL, 45.3, NULL, 181.0, 'AMD Instinct MI210 data sheet'),
        (20, '%mi250%', 1638.4, 181.05, 181.05, NULL, 45.25, NULL, 181.05, 'AMD Instinct MI250 data sheet, one of the two dies'),
        (10, '%mi250x%', 1638.4, 191.5, 191.5, NULL, 47.85, NULL, 191.5, 'AMD Instinct MI250X data sheet, one of the two dies'),
        (20, '%mi300a%', 5300.0, 980.6, 980.6, 490.3, 122.6, 1961.2, 1961.2, 'AMD Instinct MI300A data sheet'),
        (20, '%mi300x%', 5300.0, 1307.4, 1307.4, 653.7, 163.4, 2614.9, 2614.9, 'AMD Instinct MI300X data sheet'),
        (20, '%mi325x%', 6000.0, 1307.4, 1307.4, 653.7, 163.4, 2614.9, 2614.9, 'AMD Instinct MI325X data sheet'),
        (20, '%mi350x%', 8000.0, 2300.0, 2300.0, NULL, 144.2, 4600.0, 4600.0, 'AMD Instinct MI350X data sheet'),
        (20, '%mi355x%', 8000.0, 2500.0, 2500.0, NULL, 157.3, 5000.0, 5000.0, 'AMD Instinct MI355X data sheet'),
        (20, '%tpu_v4%', 1228.0, 275.0, NULL, NULL, NULL, NULL, 275.0, 'Cloud TPU v4'),
        (20, '%tpu_v5_lite%', 819.0, 197.0, NULL, NULL, NULL, NULL, 393.0, 'Cloud TPU v5e'),
        (20, '%tpu_v5e%', 819.0, 197.0, NULL, NULL, NULL, NULL, 393.0, 'Cloud TPU v5e'),
        (20, '%tpu_v5', 2765.0, 459.0, NULL, NULL, NULL, 459.0, 918.0, 'Cloud TPU v5p, as JAX names it'),
        (20, '%tpu_v5p%', 2765.0, 459.0, NULL, NULL, NULL, 459.0, 918.0, 'Cloud TPU v5p'),
        (20, '%tpu_v6_lite%', 1640.0, 918.0, NULL, NULL, NULL, 918.0, 1836.0, 'Cloud TPU v6e'),
        (20, '%tpu_v6e%', 1640.0, 918.0, NULL, NULL, NULL, 918.0, 1836.0, 'Cloud TPU v6e'),
        (20, '%tpu7x%', 7380.0, 2307.0, NULL, NULL, NULL, 4614.0, NULL, 'Cloud TPU7x')
) AS peaks (
    priority, pattern, hbm_gb_per_s, bf16_tera, fp16_tera, tf32_tera, fp32_tera, fp8_tera, int8_tera,
    vendor_source
)
