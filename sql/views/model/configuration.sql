-- @view     configuration
-- @summary  What is known of a run: ranks and devices of the trace, model and parallelism of its
--           card.
-- @requires sources
-- @reads    traces _job_devices cards steps ranks
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   sources VARCHAR value - | Profilers, joined by +.
-- @column   rank_count BIGINT value count | Ranks ingested.
-- @column   world_size BIGINT value - | Ranks of the job, as stated.
-- @column   host_count BIGINT value count | Hosts that the ranks name; NULL where they name none.
-- @column   device_name VARCHAR value - | Accelerator: as the trace names it, else the card.
-- @column   devices BIGINT value - | Devices of the job.
-- @column   step_count BIGINT value count | Steps of the rank that has most; NULL where the trace
--           has none.
-- @column   model VARCHAR value - | Model.
-- @column   framework VARCHAR value - | Framework.
-- @column   phase VARCHAR value - | training, inference or serving.
-- @column   precision VARCHAR value - | Precision.
-- @column   batch_size BIGINT value - | Global batch size.
-- @column   seq_len BIGINT value - | Sequence length.
-- @column   dp_replicate BIGINT value - | Data-parallel replicas.
-- @column   dp_shard BIGINT value - | Data-parallel shards.
-- @column   tp BIGINT value - | Tensor-parallel degree.
-- @column   pp BIGINT value - | Pipeline-parallel degree.
-- @column   cp BIGINT value - | Context-parallel degree.
-- @column   ep BIGINT value - | Expert-parallel degree.
-- @column   backend VARCHAR value - | Communication backend, as the trace states it.
-- @column   comm_library VARCHAR value - | Communication library, and its version where the trace
--           states it.
-- @column   comm_env VARCHAR value - | Variables of the communication library by the card, as JSON.
-- @source   metrics 6
WITH
    first_cards AS (
        SELECT
            trace, model_family, framework, phase, precision, batch_size, seq_len, dp_replicate, dp_shard,
            tp, pp, cp, ep, xpu_model, comm_library, card
        FROM cards
        QUALIFY row_number() OVER (PARTITION BY trace ORDER BY path) = 1
    ),

    rank_facts AS (
        SELECT
            trace,
            nullif(count(DISTINCT host), 0) AS host_count,
            min(backend) AS backend,
            min(comm_version) AS comm_version
        FROM ranks
        GROUP BY trace
    ),

    step_counts AS (
        SELECT trace, rank, count(*) AS step_count
        FROM steps
        GROUP BY trace, rank
    ),

    most_steps AS (
        SELECT trace, max(step_count) AS step_count
        FROM step_counts
        GROUP BY trace
    )

SELECT
    t.trace, t.sources, t.rank_count, t.world_size, r.host_count,
    coalesce(t.device_name, c.xpu_model) AS device_name,
    d.devices,
    s.step_count,
    c.model_family AS model,
    c.framework, c.phase, c.precision, c.batch_size, c.seq_len, c.dp_replicate, c.dp_shard, c.tp, c.pp,
    c.cp, c.ep,
    r.backend,
    nullif(
        concat_ws(
            ' ',
            coalesce(
                c.comm_library,
                -- A version is recorded of these two alone, under one name.
                CASE
                    WHEN r.comm_version IS NULL THEN NULL
                    WHEN regexp_matches(coalesce(t.device_name, c.xpu_model), '(?i)\bAMD\b|Instinct|Radeon|\bMI[0-9]{2,3}') THEN 'RCCL'
                    WHEN coalesce(t.device_name, c.xpu_model) IS NOT NULL THEN 'NCCL'
                    ELSE 'NCCL or RCCL'
                END
            ),
            r.comm_version
        ), ''
    ) AS comm_library,
    nullif(nullif(CASE WHEN json_valid(c.card)
        THEN CAST(json_extract(c.card, '$."Model-executor".communication_library.env') AS VARCHAR) END,
        'null'), '{}') AS comm_env
FROM traces AS t
LEFT JOIN rank_facts AS r ON r.trace = t.trace
LEFT JOIN _job_devices AS d ON d.trace = t.trace
LEFT JOIN most_steps AS s ON s.trace = t.trace
LEFT JOIN first_cards AS c ON c.trace = t.trace
ORDER BY t.trace
