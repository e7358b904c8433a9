#!lua
-- Reads the heads of the queues of the first line that has any.
--
-- KEYS[1]  the epoch
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  how many accounts are enough
-- ARGV[3…] the queues, line by line, the line that comes first first
-- Returns false if the index is lost, else three of each head: the number of its
-- queue, "order:account:job", virtual time. They come queue by queue, and an
-- account may be in several.
--
-- The first line has a Redis that is full, or a replica, refuse the script,
-- though it only reads: where no job can be added, that none is there says nothing.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local prefix, enough = ARGV[1], tonumber(ARGV[2])
local heads, line = {}, nil
for q = 3, #ARGV do
  local of = string.match(ARGV[q], '^[^:]*')
  if of ~= line and #heads > 0 then
    break
  end
  line = of
  local queue = redis.call('ZRANGE', prefix .. 'queue:' .. ARGV[q], 0, enough - 1, 'WITHSCORES')
  for i = 1, #queue, 2 do
    table.insert(heads, tostring(q - 3))
    table.insert(heads, queue[i])
    table.insert(heads, queue[i + 1])
  end
end
return heads
