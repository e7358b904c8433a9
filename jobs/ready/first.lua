-- Reads the heads of the queues, lane by lane, until there are enough.
--
-- KEYS[1]  the epoch
-- ARGV[1]  what all keys begin with; they share the epoch's hash slot
-- ARGV[2]  how many accounts are enough
-- ARGV[3]  how many lanes follow; what comes after them are models
-- ARGV[4…] the lanes, highest first, and the models
-- Returns false if the index is lost, else four of each head: lane, model,
-- "order:account:job", virtual time. Within a lane they come queue by queue, and
-- an account may be in several.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local prefix, enough, lanes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local heads = {}
for l = 4, 3 + lanes do
  local longest = 0
  for m = 4 + lanes, #ARGV do
    local queue = redis.call('ZRANGE', prefix .. 'queue:' .. ARGV[l] .. ':' .. ARGV[m], 0, enough - 1, 'WITHSCORES')
    for i = 1, #queue, 2 do
      for _, field in ipairs({ARGV[l], ARGV[m], queue[i], queue[i + 1]}) do
        table.insert(heads, field)
      end
    end
    longest = math.max(longest, #queue / 2)
  end
  -- A queue has each account once: this many are different ones.
  enough = enough - longest
  if enough == 0 then
    break
  end
end
return heads
