-- What update.lua and stand.lua share.
--
-- Of an account's jobs the first of each queue stands in the queue, unless the
-- account is at its cap. The name of a queue begins with its line's, and a colon.

local prefix = ARGV[1]

local function key(...) return prefix .. table.concat({...}, ':') end

local function line_of(queue) return string.match(queue, '^[^:]*') end

local told = {}

-- announce tells all processes once that an account has jobs in a queue of any line.
local function announce(origin, account, queue)
  local work = account .. ':' .. string.match(queue, ':(.*)$')
  if not told[work] then
    told[work] = true
    redis.call('PUBLISH', key('wakes'), origin .. ':' .. work)
  end
end

-- capped tells whether the account stands in no queue.
local function capped(account)
  local standing = redis.call('HGET', key('standings'), account)
  return standing and string.match(standing, ':1$') ~= nil
end

-- advance has an account be at a time in a line, or later: in PostgreSQL it only
-- grows, so a hint that comes late must not take it back.
local function advance(account, line, time)
  local field = line .. ':' .. account
  local was = tonumber(redis.call('HGET', key('times'), field) or time)
  redis.call('HSET', key('times'), field, string.format('%.17g', math.max(was, tonumber(time))))
end

-- settle has an account stand in its queues of a line (nil: of all), each with
-- its first job there, or not at all.
local function settle(account, line)
  local left = {}
  local aside = capped(account)
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues', account))) do
    if not line or line_of(queue) == line then
      local sorted, heads = key('queue', queue), key('heads', queue)
      local was = redis.call('HGET', heads, account)
      local first = redis.call('ZRANGE', key('jobs', account, queue), 0, 0, 'WITHSCORES')
      local head = first[1] and not aside and string.format('%016.0f:%s:%s', tonumber(first[2]), account, first[1])
      if was and was ~= head then
        redis.call('ZREM', sorted, was)
        redis.call('HDEL', heads, account)
      end
      if head then
        redis.call('ZADD', sorted, redis.call('HGET', key('times'), line_of(queue) .. ':' .. account), head)
        if was ~= head then
          redis.call('HSET', heads, account, head)
        end
      end
      if first[1] then
        left[line_of(queue)] = true
      else
        redis.call('SREM', key('queues', account), queue)
      end
    end
  end
  if line and not left[line] then
    redis.call('HDEL', key('times'), line .. ':' .. account)
  end
  if redis.call('EXISTS', key('queues', account)) == 0 then
    redis.call('SREM', key('accounts'), account)
    if not aside then
      redis.call('HDEL', key('standings'), account)
    end
  end
end
