-- @view     sampled_stacks
-- @summary  Call stacks that Nsight Systems sampled on the hosts, with how often each was seen: the
--           frames of a stack in one text, from the outermost on, with ; between them.
-- @requires host_events metadata
-- @null     no call stacks were sampled (nsys profile --sample=process-tree records them)
-- @column   trace VARCHAR dim - | The ingested trace.
-- @column   rank BIGINT dim - | Global rank.
-- @column   pid BIGINT dim - | Process.
-- @column   tid BIGINT dim - | Thread.
-- @column   stack VARCHAR dim - | Frames, each of 256 characters at most; a ; in a name is a :,
--           what steers a terminal or ends a line is a blank. In brackets the module of a frame
--           without a symbol.
-- @column   sample_count BIGINT value count | Samples.
-- @column   share_pct DOUBLE value pct | Share of the samples of the trace that show a stack.
-- @source   SAMPLING_CALLCHAINS and COMPOSITE_EVENTS of Nsight Systems
WITH
    samples AS (
        SELECT
            trace, rank, pid, tid,
            json_extract_string(CASE WHEN json_valid(args) THEN args END, '$.callchain') AS chain,
            count(*) AS samples
        FROM host_events
        WHERE source = 'nsys' AND category = 'COMPOSITE_EVENTS'
        GROUP BY trace, rank, pid, tid, chain
    ),

    -- Several files may hold one chain.
    chains AS (
        SELECT
            trace, substr(key, 12) AS chain,
            TRY_CAST(CAST(CASE WHEN json_valid(value) THEN value END AS JSON) AS VARCHAR[]) AS frames
        FROM metadata
        WHERE key LIKE 'call#_chain:%' ESCAPE '#'
        GROUP BY trace, key, value
    ),

    named AS (
        SELECT
            trace, chain,
            array_to_string(
                list_transform(
                    frames,
                    lambda f: regexp_replace(
                        replace(left(f, 256), ';', ':'), '[\x00-\x1f\x7f-\x9f]', ' ', 'g'
                    )
                ),
                ';'
            ) AS stack
        FROM chains
        WHERE frames IS NOT NULL
    )

SELECT
    s.trace, s.rank, s.pid, s.tid, n.stack,
    CAST(sum(s.samples) AS BIGINT) AS sample_count,
    100 * CAST(sum(s.samples) AS DOUBLE)
        / sum(sum(s.samples)) OVER (PARTITION BY s.trace) AS share_pct
FROM samples AS s
INNER JOIN named AS n ON n.trace = s.trace AND n.chain = s.chain
GROUP BY s.trace, s.rank, s.pid, s.tid, n.stack
ORDER BY s.trace, sample_count DESC, s.rank, s.pid, s.tid, n.stack
