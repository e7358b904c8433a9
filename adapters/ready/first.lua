#!lua
-- Reads the heads of the queues of the first line that has any.
--
-- KEYS[1]  the epoch
-- KEYS[2]  a key that never exists
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  how many accounts are enough
-- ARGV[3]  how many accounts follow; if any, only they count
-- ARGV[4…] these accounts, then the queues, line by line, the line that comes first first
-- Returns false if the index is lost, else three of each head: the number of its
-- queue, "order:account:job", virtual time. They come queue by queue, and an
-- account may be in several.
--
-- The first line has a Redis that is full, or a replica, refuse the script,
-- though it only reads: where no job can be added, that none is there says nothing.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local prefix, enough, named = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- first_of returns the heads of a queue and their virtual times, alternately.
local function first_of(queue)
  if named == 0 then
    return redis.call('ZRANGE', prefix .. 'queue:' .. queue, 0, enough - 1, 'WITHSCORES')
  end
  local found = {}
  for _, head in ipairs(redis.call('HMGET', prefix .. 'heads:' .. queue, unpack(ARGV, 4, 3 + named))) do
    local time = head and redis.call('ZSCORE', prefix .. 'queue:' .. queue, head)
    if time then
      table.insert(found, head)
      table.insert(found, time)
    end
  end
  return found
end

local heads, line = {}, nil
local first_queue = 4 + named
for q = first_queue, #ARGV do
  local of = string.match(ARGV[q], '^[^:]*')
  if of ~= line and #heads > 0 then
    break
  end
  line = of
  local queue = first_of(ARGV[q])
  for i = 1, #queue, 2 do
    table.insert(heads, tostring(q - first_queue))
    table.insert(heads, queue[i])
    table.insert(heads, queue[i + 1])
  end
end
return heads
