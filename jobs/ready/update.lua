-- Puts jobs into the index or takes them out, and moves their accounts to their
-- virtual times in all queues of their lanes.
--
-- KEYS[1]  the epoch
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  ZADD or ZREM
-- ARGV[3]  whose announcement it is, which is put before the model
-- ARGV[4…] six of each job: lane, model, account, job, order, virtual time
--          (below 0: not known)
-- Returns 1, or 0 if the index is lost: then it has changed nothing.
--
-- An added job is announced in any case: who hears of it and finds the index
-- lost asks PostgreSQL.

local prefix, verb, origin = ARGV[1], ARGV[2], ARGV[3]
local first_field, fields = 4, 6

local function key(...) return prefix .. table.concat({...}, ':') end

local function announce()
  local told = {}
  for i = first_field, #ARGV, fields do
    local model = ARGV[i + 1]
    if not told[model] then
      told[model] = true
      redis.call('PUBLISH', key('wakes'), origin .. ':' .. model)
    end
  end
end

-- settle has an account stand in one queue with its first job there, or not at
-- all if it has none.
local function settle(lane, model, account, time)
  local queue, heads = key('queue', lane, model), key('heads', lane, model)
  local was = redis.call('HGET', heads, account)
  if was then
    redis.call('ZREM', queue, was)
  end
  local first = redis.call('ZRANGE', key('jobs', lane, account, model), 0, 0, 'WITHSCORES')
  if first[1] then
    local head = string.format('%016.0f:%s:%s', tonumber(first[2]), account, first[1])
    redis.call('ZADD', queue, time, head)
    redis.call('HSET', heads, account, head)
  else
    redis.call('HDEL', heads, account)
    if redis.call('EXISTS', queue) == 0 then
      redis.call('SREM', key('models', lane), model)
    end
  end
end

-- move settles an account in all queues of a lane, at the latest time that is
-- known. In PostgreSQL it only grows, so a hint that comes late must not take it
-- back.
local function move(lane, account, time)
  local models = {}
  for _, model in ipairs(redis.call('SMEMBERS', key('models', lane))) do
    local head = redis.call('HGET', key('heads', lane, model), account)
    if head then
      local at = redis.call('ZSCORE', key('queue', lane, model), head)
      time = math.max(time, tonumber(at or time))
    end
    if head or redis.call('EXISTS', key('jobs', lane, account, model)) == 1 then
      table.insert(models, model)
    end
  end
  for _, model in ipairs(models) do
    settle(lane, model, account, time)
  end
end

if verb == 'ZADD' then
  announce()
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local moved = {}
for i = first_field, #ARGV, fields do
  local lane, model, account, job, order, time = unpack(ARGV, i, i + fields - 1)
  if verb == 'ZADD' then
    redis.call('ZADD', key('jobs', lane, account, model), order, job)
    redis.call('SADD', key('models', lane), model)
  else
    redis.call('ZREM', key('jobs', lane, account, model), job)
  end
  moved[lane] = moved[lane] or {}
  moved[lane][account] = math.max(tonumber(time), moved[lane][account] or -1)
end
for lane, accounts in pairs(moved) do
  for account, time in pairs(accounts) do
    move(lane, account, time)
  end
end
return 1
