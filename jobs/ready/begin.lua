-- Begins a lost index anew, empty.
--
-- KEYS[1]  the epoch
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  the new epoch
-- ARGV[3…] the lanes
-- Returns 1, or 0 if another process has begun it already.

if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
-- The epoch alone may have gone (somebody deleted it, to have all built anew).
local prefix = ARGV[1]
for l = 3, #ARGV do
  local lane = ARGV[l]
  for _, model in ipairs(redis.call('SMEMBERS', prefix .. 'models:' .. lane)) do
    local heads = prefix .. 'heads:' .. lane .. ':' .. model
    for _, account in ipairs(redis.call('HKEYS', heads)) do
      redis.call('DEL', prefix .. 'jobs:' .. lane .. ':' .. account .. ':' .. model)
    end
    redis.call('DEL', heads, prefix .. 'queue:' .. lane .. ':' .. model)
  end
  redis.call('DEL', prefix .. 'models:' .. lane)
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
