-- Gives back the tokens of submits that wrote no job, and what their keys hold.
--
-- KEYS and ARGV[1]  as in take.lua
-- ARGV[2…]          the digests of the submits' keys; empty is none
local minute = 60000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local paid = math.min(tonumber(redis.call('GET', KEYS[1])) or now, now + minute)
paid = math.max(now, paid - (#ARGV - 1) * minute / tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', paid), 'PX', math.max(1, math.ceil((paid - now) / 1000)))
for i = 2, #ARGV do
    if ARGV[i] ~= '' then
        redis.call('ZREM', KEYS[2], ARGV[i])
    end
end
