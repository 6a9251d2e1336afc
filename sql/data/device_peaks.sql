-- @view     device_peaks
-- @summary  What accelerators can do at most, by name: memory bandwidth and dense bfloat16 rate of one device.
-- @column   priority INTEGER dim - | Of the patterns that a name matches, the lowest counts, of equals the longest pattern.
-- @column   pattern VARCHAR dim - | Pattern of LIKE for the name of the device in lower case; _ is any one character.
-- @column   hbm_gb_per_s DOUBLE value gb_per_s | Peak bandwidth of the memory of one device.
-- @column   bf16_flops_per_s DOUBLE value flops_per_s | Peak rate of dense bfloat16 matrix operations; NULL where the device has none.
-- @column   vendor_source VARCHAR value - | Where the vendor says so.
-- @caveat   Variants of one name differ (memory, power); where a name does not say which, the row is the common one.
-- @source   data sheets of NVIDIA and AMD, and the pages of Cloud TPU, as named in each row
SELECT
    priority, pattern, CAST(hbm_gb_per_s AS DOUBLE) AS hbm_gb_per_s, bf16_flops_per_s, vendor_source
FROM (
    VALUES
        (20, '%b300%', 8000.0, 2250e12, 'NVIDIA HGX B300 (36 PFLOPS of 8, sparse)'),
        (10, '%gb300%', 8000.0, 2500e12, 'NVIDIA GB300 NVL72 (360 PFLOPS of 72, sparse)'),
        (20, '%b200%', 8000.0, 2250e12, 'NVIDIA DGX B200 (64 TB/s and 36 PFLOPS of 8, sparse)'),
        (10, '%gb200%', 8000.0, 2500e12, 'NVIDIA GB200 NVL72 (360 PFLOPS of 72, sparse)'),
        (20, '%h200%', 4800.0, 989.4e12, 'NVIDIA H200 data sheet'),
        (10, '%gh200%', 4000.0, 989.4e12, 'NVIDIA GH200 data sheet, HBM3'),
        (5, '%gh200 144g%', 4900.0, 989.4e12, 'NVIDIA GH200 data sheet, HBM3e'),
        (10, '%h100 nvl%', 3900.0, 835e12, 'NVIDIA H100 data sheet, NVL'),
        (10, '%h100 pcie%', 2000.0, 756e12, 'NVIDIA H100 data sheet, PCIe'),
        (20, '%h100%', 3350.0, 989.4e12, 'NVIDIA H100 data sheet, SXM'),
        (10, '%a100_sxm4_40gb%', 1555.0, 312e12, 'NVIDIA A100 data sheet, 40 GB'),
        (10, '%a100_pcie_40gb%', 1555.0, 312e12, 'NVIDIA A100 data sheet, 40 GB'),
        (10, '%a100 80gb pcie%', 1935.0, 312e12, 'NVIDIA A100 data sheet, 80 GB PCIe'),
        (20, '%a100%', 2039.0, 312e12, 'NVIDIA A100 data sheet, 80 GB SXM'),
        (20, '%v100%', 900.0, NULL, 'NVIDIA V100 data sheet, SXM2'),
        (20, '%l40s%', 864.0, 362e12, 'NVIDIA L40S data sheet'),
        (20, '%mi250%', 3276.8, 383e12, 'AMD Instinct MI250X data sheet, both dies'),
        (20, '%mi300x%', 5300.0, 1307.4e12, 'AMD Instinct MI300X data sheet'),
        (20, '%mi325x%', 6000.0, 1307.4e12, 'AMD Instinct MI325X data sheet'),
        (20, '%mi350x%', 8000.0, 2300e12, 'AMD Instinct MI350X data sheet'),
        (20, '%mi355x%', 8000.0, 2500e12, 'AMD Instinct MI355X data sheet'),
        (20, '%tpu_v4%', 1228.0, 275e12, 'Cloud TPU v4'),
        (20, '%tpu_v5_lite%', 819.0, 197e12, 'Cloud TPU v5e'),
        (20, '%tpu_v5e%', 819.0, 197e12, 'Cloud TPU v5e'),
        (20, '%tpu_v5', 2765.0, 459e12, 'Cloud TPU v5p, as JAX names it'),
        (20, '%tpu_v5p%', 2765.0, 459e12, 'Cloud TPU v5p'),
        (20, '%tpu_v6_lite%', 1640.0, 918e12, 'Cloud TPU v6e'),
        (20, '%tpu_v6e%', 1640.0, 918e12, 'Cloud TPU v6e'),
        (20, '%tpu7x%', 7380.0, 2307e12, 'Cloud TPU7x')
) AS peaks (priority, pattern, hbm_gb_per_s, bf16_flops_per_s, vendor_source)
