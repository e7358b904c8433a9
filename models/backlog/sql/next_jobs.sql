-- Continues next_heads.sql: the first job of each account in the line, in the order of the accounts'
-- virtual times.
SELECT id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order, virtual_time
FROM heads ORDER BY virtual_time, queue_order
