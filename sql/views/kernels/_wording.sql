-- @view     _wording
-- @summary  What the findings of a trace and their advice speak of: the framework, the vendor of
--           the devices, and whether times are of a step or of the whole trace.
-- @materialize session
-- @requires ranks
-- @reads    kernel_times host_events metadata _account_windows
-- @caveat   framework is pytorch, xla, or native where no kernel or operator is of a framework;
--           vendor is nvidia, amd or google, NULL where nothing says it; of_what is of a step, or
--           of the trace where no step counts; in_what the same with in.
WITH
    recorded AS (
        SELECT
            trace, bool_or(source = 'xla') AS is_xla, bool_or(source = 'kineto') AS is_kineto,
            bool_or(source = 'nsys') AS is_nsys, string_agg(DISTINCT device_name, ' ') AS devices
        FROM ranks
        GROUP BY trace
    ),

    kernels AS (
        SELECT DISTINCT trace
        FROM kernel_times
        WHERE name LIKE '%at::native::%'
            OR name LIKE 'triton\_%\_fused\_%' ESCAPE '\'
            OR op_name LIKE 'aten::%'
    ),

    calls AS (
        SELECT trace, bool_or(name LIKE 'hip%') AS is_hip, bool_or(name LIKE 'cu%') AS is_cuda
        FROM host_events
        WHERE class = 'host_runtime'
        GROUP BY trace
    ),

    tpus AS (
        SELECT DISTINCT trace
        FROM metadata
        WHERE value LIKE '/device:TPU%' OR key LIKE '/device:TPU%'
    ),

    windows AS (
        SELECT DISTINCT trace
        FROM _account_windows
        WHERE per = 'step'
    )

SELECT
    r.trace,
    CASE
        WHEN r.is_kineto OR k.trace IS NOT NULL THEN 'pytorch'
        WHEN r.is_xla THEN 'xla'
        ELSE 'native'
    END AS framework,
    CASE
        WHEN t.trace IS NOT NULL OR r.devices LIKE '%TPU%' THEN 'google'
        WHEN c.is_hip OR regexp_matches(r.devices, '(?i)\bAMD\b|Instinct|Radeon|\bMI[0-9]{2,3}')
            THEN 'amd'
        WHEN c.is_cuda
            OR r.is_nsys
            OR regexp_matches(r.devices, '(?i)NVIDIA|Tesla|GeForce|Quadro')
            THEN 'nvidia'
    END AS vendor,
    CASE WHEN w.trace IS NULL THEN 'of the trace' ELSE 'of a step' END AS of_what,
    CASE WHEN w.trace IS NULL THEN 'in the trace' ELSE 'in a step' END AS in_what
FROM recorded AS r
LEFT JOIN kernels AS k ON k.trace = r.trace
LEFT JOIN calls AS c ON c.trace = r.trace
LEFT JOIN tpus AS t ON t.trace = r.trace
LEFT JOIN windows AS w ON w.trace = r.trace
