-- @view     bus_factors
-- @summary  Bus factors of nccl-tests: what a rank sends at least, as a share of the message size.
-- @column   collective VARCHAR dim - | Kind of call.
-- @column   factor DOUBLE value - | The factor; where in_group, times (n - 1) / n of a group of n
--           ranks.
-- @column   in_group BOOLEAN value - | Whether it depends on the size of the group.
-- @source   nccl-tests doc/PERFORMANCE.md
SELECT collective, factor, in_group
FROM (
    VALUES
        ('all_reduce', 2.0::DOUBLE, TRUE),
        ('all_gather', 1.0::DOUBLE, TRUE),
        ('reduce_scatter', 1.0::DOUBLE, TRUE),
        ('all_to_all', 1.0::DOUBLE, TRUE),
        ('broadcast', 1.0::DOUBLE, FALSE),
        ('reduce', 1.0::DOUBLE, FALSE),
        ('send', 1.0::DOUBLE, FALSE),
        ('recv', 1.0::DOUBLE, FALSE),
        ('send_recv', 1.0::DOUBLE, FALSE)
) AS factors (collective, factor, in_group)
