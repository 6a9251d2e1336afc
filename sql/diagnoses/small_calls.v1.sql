-- @diagnosis small_calls
-- @version  1
-- @summary  Many calls are so small that what each costs by itself is more than what its bytes
--           cost.
-- @profilers kineto nsys xla
-- @requires _exposed_transfers hockney_fits
-- @reads    _wording _diagnosis_limits _match_doubts _size_reasons
-- @gain     (n - 1) x alpha of the Hockney fit for the n calls of one kind and process group in a
--           step that are below n_half (alpha / beta): they become one; not more than their exposed
--           transfer; of each rank, then the mean over the ranks that have such calls
-- @shown    hockney_by_collective
-- @reason   (SELECT why FROM _size_reasons WHERE spoken = 'call')
--           | no call of more than one rank states a size above 0 and has a duration above 0
-- @check    (SELECT count(*) FROM hockney_fits WHERE alpha_us > 0 AND sizes > 1) > 0
--           | no kind of call has two sizes with a cost that is not by its bytes, so that there is
--           no fit
-- @caveat   Calls of tensor, context, expert and pipeline parallelism depend on each other through
--           compute and cannot be fused: they are left out. Calls of unknown dimension may
--           be such, too. A fit that explains less than 0.8 of the variance does not count.
-- @source   Hockney model, as in hockney_fits
WITH
    small AS (
        SELECT
            x.trace, x.rank, x.collective, x.pg_id, x.pg_desc, x.dim, f.alpha_us, f.flag,
            sum(x.calls ORDER BY x.message_bytes) AS calls,
            sum(x.calls * x.message_bytes ORDER BY x.message_bytes)
                / sum(x.calls ORDER BY x.message_bytes) AS mean_bytes,
            sum(x.transfer_ms ORDER BY x.message_bytes) AS transfer_ms,
            sum(x.exposed_ms ORDER BY x.message_bytes) AS exposed_ms
        FROM _exposed_transfers AS x
        INNER JOIN hockney_fits AS f
            ON f.trace = x.trace
            AND f.collective = x.collective
            AND f.group_size IS NOT DISTINCT FROM x.group_size
            AND f.link IS NOT DISTINCT FROM x.link
        WHERE f.sizes > 1
            AND coalesce(f.flag NOT LIKE '%low_r2%', TRUE)
            AND x.message_bytes > 0
            AND x.message_bytes < f.n_half_bytes
            AND x.is_matched
            AND NOT x.uneven
            AND coalesce(x.dim, 'dp') = 'dp'
        GROUP BY
            x.trace, x.rank, x.collective, x.pg_id, x.pg_desc, x.dim, x.group_size, f.alpha_us, f.flag
    ),

    bounded AS (
        SELECT
            trace, rank, collective, coalesce(pg_desc, dim) AS group_name, dim, flag, calls, alpha_us,
            mean_bytes, transfer_ms, exposed_ms,
            least(exposed_ms, greatest(calls - 1, 0) * alpha_us / 1e3) AS gain_ms
        FROM small
    ),

    -- A rank may be in several groups of one description.
    per_rank AS (
        SELECT
            trace, rank, collective, group_name, dim, max(flag) AS flag, sum(calls) AS calls,
            avg(alpha_us) AS alpha_us, sum(calls * mean_bytes) / sum(calls) AS mean_bytes,
            sum(transfer_ms) AS transfer_ms,
            sum(exposed_ms) AS exposed_ms, sum(gain_ms) AS gain_ms
        FROM bounded
        GROUP BY trace, rank, collective, group_name, dim
    ),

    found AS (
        SELECT
            trace, collective, group_name, dim, max(flag) AS flag, avg(calls ORDER BY rank) AS calls,
            avg(alpha_us ORDER BY rank) AS alpha_us,
            sum(calls * mean_bytes ORDER BY rank) / sum(calls ORDER BY rank) AS mean_bytes,
            avg(transfer_ms ORDER BY rank) AS transfer_ms,
            avg(exposed_ms ORDER BY rank) AS exposed_ms, avg(gain_ms ORDER BY rank) AS gain_ms
        FROM per_rank
        GROUP BY trace, collective, group_name, dim
    )

SELECT
    f.trace,
    printf(
        '%.0f calls of %s%s %s carry %.0f bytes each on average: of the %.1f us of one, %.1f us are no transfer of bytes; %.3f ms of them are exposed',
        f.calls, f.collective, coalesce(' of ' || f.group_name, ''), w.in_what, f.mean_bytes,
        1e3 * f.transfer_ms / f.calls, least(f.alpha_us, 1e3 * f.transfer_ms / f.calls), f.exposed_ms
    ) AS finding,
    {
        "group": f.group_name, kind: f.collective, size_bytes: CAST(round(f.mean_bytes) AS BIGINT)
    } AS "where",
    f.exposed_ms AS time_per_step_ms,
    f.gain_ms,
    [
        l.steps_limit, l.matches_limit, doubts.doubts_limit,
        CASE WHEN f.flag IS NOT NULL THEN 'the fit is to be doubted: ' || f.flag END,
        CASE
            WHEN f.dim IS NULL
                THEN 'the dimension of the calls is not known: calls that depend on each other cannot be fused'
        END
    ] AS limits,
    'make one call of them: DDP: larger bucket_cap_mb; FSDP2: fully_shard larger modules, not each small one; Megatron: --ddp-bucket-size; own calls: flatten the tensors, or torch.distributed._coalescing_manager; scalars (losses, norms): stack them and reduce once'
        AS advice,
    'SELECT collective, group_size, alpha_us, beta_s_per_gb, n_half_bytes, r2, samples, sizes, flag FROM hockney_fits WHERE trace = {trace} ORDER BY ALL'
        AS evidence
FROM found AS f
INNER JOIN _wording AS w ON w.trace = f.trace
INNER JOIN _diagnosis_limits AS l ON l.trace = f.trace
LEFT JOIN _match_doubts AS doubts ON doubts.trace = f.trace
WHERE f.gain_ms > 0
QUALIFY row_number() OVER (
    PARTITION BY f.trace ORDER BY f.gain_ms DESC, f.collective, f.group_name
) <= 3
