-- Puts jobs into the index or takes them out, and moves their accounts to their
-- virtual times in all queues of their lines. It comes behind account.lua.
--
-- KEYS[1]  the epoch
-- KEYS[2]  a key that never exists
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  ZADD or ZREM
-- ARGV[3]  whose announcement it is, which is put before the account and the queue
-- ARGV[4…] five of each job: queue, account, job, order, virtual time (below 0:
--          not known)
-- Returns 1, or 0 if the index is lost: then it has changed nothing.
--
-- An added job is announced in any case: who hears of it and finds the index
-- lost asks PostgreSQL.

local verb, origin = ARGV[2], ARGV[3]
local first_field, fields = 4, 5

if verb == 'ZADD' then
  for i = first_field, #ARGV, fields do
    announce(origin, ARGV[i + 1], ARGV[i])
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local moved = {}
local changed = {} -- of each key: what ZADD or ZREM is told
local queues_of = {} -- of each account: the queues that it has jobs in, from now on
for i = first_field, #ARGV, fields do
  local queue, account, job, order, time = unpack(ARGV, i, i + fields - 1)
  local sorted = key('jobs', account, queue)
  local args = changed[sorted]
  if not args then
    args = {}
    changed[sorted] = args
    queues_of[account] = queues_of[account] or {}
    table.insert(queues_of[account], queue)
  end
  if verb == 'ZADD' then
    args[#args + 1] = order
  end
  args[#args + 1] = job
  local line = line_of(queue)
  moved[account] = moved[account] or {}
  moved[account][line] = math.max(tonumber(time), moved[account][line] or -1)
end
for sorted, args in pairs(changed) do
  redis.call(verb, sorted, unpack(args))
end
if verb == 'ZADD' then
  for account, queues in pairs(queues_of) do
    redis.call('SADD', key('queues', account), unpack(queues))
    redis.call('SADD', key('accounts'), account)
  end
end
for account, lines in pairs(moved) do
  for line, time in pairs(lines) do
    advance(account, line, time)
    settle(account, line)
  end
end
return 1
