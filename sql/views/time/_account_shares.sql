-- @view     _account_shares
-- @summary  How many windows of its devices a time of a rank is the mean over, as in _rank_account.
-- @materialize session
-- @partition rank
-- @requires _account_windows _device_times
SELECT w.trace, w.rank, w.window_count * d.device_count AS share_count
FROM (
    SELECT trace, rank, count(*) AS window_count
    FROM _account_windows
    WHERE is_counted
    GROUP BY trace, rank
) AS w
INNER JOIN (
    SELECT trace, rank, count(DISTINCT coalesce(device, -1)) AS device_count
    FROM _device_times
    GROUP BY trace, rank
) AS d ON d.trace = w.trace AND d.rank = w.rank
