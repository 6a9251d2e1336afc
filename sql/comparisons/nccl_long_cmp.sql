-- @comparison nccl_long_cmp
-- @summary  Communication events of all ranks by kind, type and size, in both runs: how often, how
--           long; the largest change of the sum first.
-- @requires nccl_long
-- @param    base VARCHAR NULL | Trace of the baseline.
-- @param    test VARCHAR NULL | Trace that is compared with it.
-- @null     neither run has such calls
-- @column   collective VARCHAR dim - | Kind.
-- @column   dtype VARCHAR dim - | Element type as recorded.
-- @column   in_elems BIGINT dim - | Elements of the input of a rank.
-- @column   group_size BIGINT dim - | Ranks of the group.
-- @column   base_total_us DOUBLE value us lower | Durations added up over all ranks, in the
--           baseline.
-- @column   test_total_us DOUBLE value us lower | The same in the test.
-- @column   diff_total_us DOUBLE value us lower | Test - baseline.
-- @column   total_us_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100.
-- @column   total_us_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_mean_us DOUBLE value us lower | Mean duration of an event, in the baseline.
-- @column   test_mean_us DOUBLE value us lower | The same in the test.
-- @column   diff_mean_us DOUBLE value us lower | Test - baseline.
-- @column   mean_us_change_pct DOUBLE value pct lower | (test - baseline) / baseline x 100.
-- @column   mean_us_ratio DOUBLE value ratio | Test / baseline.
-- @column   base_events BIGINT value calls | Events, in the baseline.
-- @column   test_events BIGINT value calls | The same in the test.
-- @column   diff_events BIGINT value calls | Test - baseline.
-- @column   events_ratio DOUBLE value ratio | Test / baseline.
-- @heading  collective | Collective name
-- @heading  in_elems | In msg nelems
-- @heading  group_size | Group size
-- @heading  base_total_us | baseline_dur_sum (us)
-- @heading  test_total_us | test_dur_sum (us)
-- @heading  diff_total_us | diff_dur_sum (us)
-- @heading  total_us_change_pct | percent_change_dur_sum (test - baseline)
-- @heading  total_us_ratio | ratio_dur_sum
-- @heading  base_mean_us | baseline_dur_mean (us)
-- @heading  test_mean_us | test_dur_mean (us)
-- @heading  diff_mean_us | diff_dur_mean (us)
-- @heading  mean_us_change_pct | percent_change_dur_mean (test - baseline)
-- @heading  mean_us_ratio | ratio_dur_mean
-- @heading  base_events | baseline_operation_count
-- @heading  test_events | test_operation_count
-- @heading  diff_events | diff_operation_count
-- @heading  events_ratio | ratio_operation_count
-- @caveat   Sums are of whole runs: of runs of unlike numbers of steps compare the means.
-- @source   metrics 7.3 NCCL_Long_Cmp: the columns that there are, over all ranks, groups and
--           streams of a key; keys that one run lacks are kept
WITH
    sums AS (
        SELECT
            trace, collective, dtype, in_elems, group_size,
            sum(dur_us ORDER BY dur_us) AS total_us,
            avg(dur_us ORDER BY dur_us) AS mean_us,
            count(*) AS events
        FROM nccl_long
        GROUP BY trace, collective, dtype, in_elems, group_size
    ),

    base AS (
        SELECT collective, dtype, in_elems, group_size, total_us, mean_us, events
        FROM sums
        WHERE trace = $base
    ),

    test AS (
        SELECT collective, dtype, in_elems, group_size, total_us, mean_us, events
        FROM sums
        WHERE trace = $test
    )

SELECT
    coalesce(b.collective, t.collective) AS collective,
    coalesce(b.dtype, t.dtype) AS dtype,
    coalesce(b.in_elems, t.in_elems) AS in_elems,
    coalesce(b.group_size, t.group_size) AS group_size,
    b.total_us AS base_total_us,
    t.total_us AS test_total_us,
    t.total_us - b.total_us AS diff_total_us,
    100 * (t.total_us - b.total_us) / nullif(b.total_us, 0) AS total_us_change_pct,
    CAST(t.total_us AS DOUBLE) / nullif(b.total_us, 0) AS total_us_ratio,
    b.mean_us AS base_mean_us,
    t.mean_us AS test_mean_us,
    t.mean_us - b.mean_us AS diff_mean_us,
    100 * (t.mean_us - b.mean_us) / nullif(b.mean_us, 0) AS mean_us_change_pct,
    CAST(t.mean_us AS DOUBLE) / nullif(b.mean_us, 0) AS mean_us_ratio,
    b.events AS base_events,
    t.events AS test_events,
    t.events - b.events AS diff_events,
    CAST(t.events AS DOUBLE) / nullif(b.events, 0) AS events_ratio
FROM base AS b
FULL OUTER JOIN test AS t
    ON t.collective = b.collective
    AND t.dtype IS NOT DISTINCT FROM b.dtype
    AND t.in_elems IS NOT DISTINCT FROM b.in_elems
    AND t.group_size IS NOT DISTINCT FROM b.group_size
ORDER BY
    abs(coalesce(t.total_us, 0) - coalesce(b.total_us, 0)) DESC, collective, dtype, in_elems, group_size
