-- Takes up to n tokens of a bucket that holds a minute's worth and fills evenly.
--
-- KEYS[1]  the bucket: until when what was taken is paid for, in microseconds of
--          Redis's clock
-- ARGV[1]  n; below 0 gives tokens back
-- ARGV[2]  tokens per minute, at least 1
-- returns  how many were taken (or given back), and in how many microseconds the
--          rest, or a full bucket, will be there
local minute = 60000000
local n, each = tonumber(ARGV[1]), minute / tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local paid = tonumber(redis.call('GET', KEYS[1])) or now
-- A clock that was set back must not shut anybody out for longer than a minute.
paid = math.min(math.max(paid, now), now + minute)
local taken = n
if n > 0 then
    -- The hundredth of a token is what rounding to microseconds may cost.
    taken = math.min(n, math.floor((now + minute - paid) / each + 0.01))
end
if taken ~= 0 then
    paid = math.max(now, paid + taken * each)
    redis.call('SET', KEYS[1], string.format('%.0f', paid), 'PX', math.max(1, math.ceil((paid - now) / 1000)))
end
local rest = math.min(n - taken, tonumber(ARGV[2]))
local wait = 0
if rest > 0 then
    wait = math.max(0, paid + rest * each - minute - now)
end
return {taken, string.format('%.0f', math.ceil(wait))}
