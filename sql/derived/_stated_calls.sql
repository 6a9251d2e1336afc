-- @derived  _stated_calls
-- @partition rank
-- @summary  Communication events on devices with the kind that they or the record around their
--           launch state, and where else to look for it.
-- @requires _device_calls
-- @reads    comm_args _comm_words _coalesced_calls
-- @column   source VARCHAR value - | As in collectives.
-- @column   rank BIGINT value - | As in collectives.
-- @column   event_id BIGINT value - | As in collectives.
-- @column   device BIGINT value - | As in collectives.
-- @column   stream BIGINT value - | As in collectives.
-- @column   ts_ns BIGINT value ns | As in collectives.
-- @column   dur_ns BIGINT value ns | As in collectives.
-- @column   step_ts_ns BIGINT value ns | The time that says the step.
-- @column   operation VARCHAR value - | The same operation of the same program (XLA).
-- @column   stall_ns BIGINT value ns | As in collectives.
-- @column   record_event_id BIGINT value - | As in launches.
-- @column   record_start BIGINT value - | First rank of a regular group, as the record says.
-- @column   record_stride BIGINT value - | Distance of its ranks, likewise.
-- @column   nvtx_source VARCHAR value - | Who says the kind, where it is not the profiler.
-- @column   nvtx_kind VARCHAR value - | The kind that this says.
-- @column   nvtx_word VARCHAR value - | As it calls it.
-- @column   kind VARCHAR value - | The kind that the event or the record states.
-- @column   word VARCHAR value - | As it calls it.
-- @column   coll_source VARCHAR value - | Which of them does.
-- @column   meta_event_id BIGINT value - | The event of comm_args that states sizes and group.
-- @column   kernel_word VARCHAR value - | The name of the kernel, where it says a kind.
-- @column   kernel_kind VARCHAR value - | That kind.
-- @column   annotation_event_id BIGINT value - | The annotation to look at, without a stated kind.
-- @column   comm_op_event_id BIGINT value - | The operator to look at, likewise.
-- @column   op_event_id BIGINT value - | The operator that launched it, likewise.
-- @source   formats_kineto sections 4 and 7; metrics 1.3
WITH
    -- `coalesced` and the like say nothing; what a kernel's name says is the last resort.
    known AS (
        SELECT word, kind
        FROM _comm_words
        WHERE kind <> 'unknown' AND NOT by_kernel
    )

-- The places that may name the kind, best first: the kernel itself, the record around its launch,
-- the records of the group that it launched, and where these do not say it the annotation and the
-- operator there. What NVTX ranges of NCCL say comes after those two: an all-to-all is a group of
-- sends and receives to NCCL.
SELECT
    c.source, c.rank, c.event_id, c.device, c.stream, c.ts_ns, c.dur_ns, c.step_ts_ns,
    c.operation, c.stall_ns, c.record_event_id,
    g.rank_start AS record_start, g.rank_stride AS record_stride,
    c.nvtx_source,
    CASE WHEN c.nvtx_source IS NOT NULL THEN k.kind END AS nvtx_kind,
    CASE WHEN c.nvtx_source IS NOT NULL THEN c.own_word END AS nvtx_word,
    CASE WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN k.kind
        ELSE coalesce(r.kind, b.kind) END AS kind,
    CASE
        WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN c.own_word
        WHEN r.kind IS NOT NULL THEN g.collective_name
        ELSE b.collective_name
    END AS word,
    CASE
        WHEN c.nvtx_source IS NULL AND k.kind IS NOT NULL THEN 'kernel_args'
        WHEN r.kind IS NOT NULL THEN 'record'
        WHEN b.kind IS NOT NULL THEN 'coalesced'
    END AS coll_source,
    -- The event that states sizes and group.
    CASE
        WHEN k.kind IS NOT NULL OR b.kind IS NOT NULL OR c.nvtx_source IS NOT NULL THEN c.event_id
        WHEN r.kind IS NOT NULL THEN c.record_event_id
    END AS meta_event_id,
    n.word AS kernel_word,
    -- The name of an operation of XLA says nothing of it.
    CASE WHEN c.source <> 'xla' OR c.nvtx_source IS NULL THEN n.kind END AS kernel_kind,
    CASE WHEN (k.kind IS NULL OR c.nvtx_source IS NOT NULL) AND r.kind IS NULL AND b.kind IS NULL
        THEN c.annotation_event_id END AS annotation_event_id,
    CASE WHEN (k.kind IS NULL OR c.nvtx_source IS NOT NULL) AND r.kind IS NULL AND b.kind IS NULL
        THEN c.comm_op_event_id END AS comm_op_event_id,
    -- Without any of these, the operator that launched it may say what it takes.
    CASE WHEN k.kind IS NULL AND r.kind IS NULL AND b.kind IS NULL AND c.nvtx_source IS NULL
        THEN c.op_event_id END AS op_event_id
FROM _device_calls AS c
LEFT JOIN comm_args AS g ON g.event_id = c.record_event_id
LEFT JOIN _coalesced_calls AS b ON b.event_id = c.event_id
LEFT JOIN known AS k ON k.word = c.own_word
LEFT JOIN known AS r ON r.word = g.collective_name AND g.coll_source IS NULL
LEFT JOIN _comm_words AS n ON n.word = c.name AND n.by_kernel
