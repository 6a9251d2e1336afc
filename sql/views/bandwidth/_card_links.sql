-- @view     _card_links
-- @summary  Bandwidth of the links that the card of a trace states, in GB/s (Gbit/s / 8), and how
--           many devices a node and the job have.
-- @requires cards
SELECT
    trace,
    nullif(max(scale_up_gbit_per_s), 0) / 8 AS intra_gb_per_s,
    nullif(max(scale_out_gbit_per_s), 0) / 8 AS inter_gb_per_s,
    max(count_per_node) AS node_size,
    max(total_count) AS job_size
FROM cards
GROUP BY trace
