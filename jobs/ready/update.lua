-- Puts jobs into the index or takes them out, and moves their accounts to their
-- virtual times in all queues of their lines. It comes behind account.lua.
--
-- KEYS[1]  the epoch
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  ZADD or ZREM
-- ARGV[3]  whose announcement it is, which is put before the queue
-- ARGV[4…] five of each job: queue, account, job, order, virtual time (below 0:
--          not known)
-- Returns 1, or 0 if the index is lost: then it has changed nothing.
--
-- An added job is announced in any case: who hears of it and finds the index
-- lost asks PostgreSQL.

local verb, origin = ARGV[2], ARGV[3]
local first_field, fields = 4, 5

if verb == 'ZADD' then
  local queues = {}
  for i = first_field, #ARGV, fields do
    table.insert(queues, ARGV[i])
  end
  announce(origin, queues)
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local moved = {}
for i = first_field, #ARGV, fields do
  local queue, account, job, order, time = unpack(ARGV, i, i + fields - 1)
  if verb == 'ZADD' then
    redis.call('ZADD', key('jobs', account, queue), order, job)
    redis.call('SADD', key('queues', account), queue)
    redis.call('SADD', key('accounts'), account)
  else
    redis.call('ZREM', key('jobs', account, queue), job)
  end
  local line = line_of(queue)
  moved[account] = moved[account] or {}
  moved[account][line] = math.max(tonumber(time), moved[account][line] or -1)
end
for account, lines in pairs(moved) do
  for line, time in pairs(lines) do
    advance(account, line, time)
    settle(account, line)
  end
end
return 1
