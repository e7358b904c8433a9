-- Has an account leave all queues, or return to them. It comes behind
-- account.lua.
--
-- KEYS[1]  the epoch
-- KEYS[2]  a key that never exists
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  whose announcement it is, which is put before the account and the queue
-- ARGV[3]  the account
-- ARGV[4]  its version: an older one is a hint that came late
-- ARGV[5]  1 if the account is at its cap, else 0
-- ARGV[6…] two of each line that it stands in: line, virtual time
-- Returns 1, or 0 if the index is lost: then it has changed nothing.
--
-- The jobs of an account that returns are announced.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local origin, account, version = ARGV[2], ARGV[3], ARGV[4]
local known = redis.call('HGET', key('standings'), account)
if known and tonumber(string.match(known, '^%d+')) > tonumber(version) then
  return 1
end
local was = capped(account)
redis.call('HSET', key('standings'), account, version .. ':' .. ARGV[5])
for i = 6, #ARGV, 2 do
  advance(account, ARGV[i], ARGV[i + 1])
end
settle(account)
if was and not capped(account) then
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues', account))) do
    announce(origin, account, queue)
  end
end
return 1
