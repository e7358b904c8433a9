-- Starts a lost index again, empty.
--
-- KEYS[1]  the epoch
-- KEYS[2]  a key that never exists
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  the new epoch
-- Returns 1, or 0 if another process has begun it already.

if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
-- Only the epoch may be missing: an operator deletes it to rebuild the index.
local prefix = ARGV[1]
for _, account in ipairs(redis.call('SMEMBERS', prefix .. 'accounts')) do
  local queues = prefix .. 'queues:' .. account
  for _, queue in ipairs(redis.call('SMEMBERS', queues)) do
    redis.call('DEL', prefix .. 'jobs:' .. account .. ':' .. queue, prefix .. 'heads:' .. queue, prefix .. 'queue:' .. queue)
  end
  redis.call('DEL', queues)
end
redis.call('DEL', prefix .. 'accounts', prefix .. 'times', prefix .. 'standings')
redis.call('SET', KEYS[1], ARGV[2])
return 1
