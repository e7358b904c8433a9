-- Takes a token of a bucket, which holds a minute's worth and fills evenly, for each of
-- some submits. A submit whose idempotency key was given one lately gets none: the job of
-- that key is being written, or is there.
--
-- KEYS[1]   the bucket: until when what was taken is paid for, in microseconds of Redis's
--           clock
-- KEYS[2]   the keys that were given a token, by when
-- ARGV[1]   tokens per minute, at least 1
-- ARGV[2]   for how many microseconds a key holds its token
-- ARGV[3…]  the digests of the submits' keys; empty is none
-- returns   for each submit t (taken), h (held by its key) or r (refused), and in how many
--           microseconds the refused ones' tokens, or a full bucket, will be there
local minute = 60000000
local each, holds = minute / tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local paid = tonumber(redis.call('GET', KEYS[1])) or now
-- A clock that was set back must not shut anybody out for longer than a minute.
paid = math.min(math.max(paid, now), now + minute)
-- The hundredth of a token is what rounding to microseconds may cost.
local left = math.floor((now + minute - paid) / each + 0.01)
local taken, refused, kept, answers = 0, 0, false, {}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - holds))
for i = 3, #ARGV do
    local since = ARGV[i] ~= '' and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[i]) or nil)
    if since and math.abs(now - since) < holds then
        answers[i - 2] = 'h'
    elseif taken < left then
        answers[i - 2], taken = 't', taken + 1
        if ARGV[i] ~= '' then
            redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[i])
            kept = true
        end
    else
        answers[i - 2], refused = 'r', refused + 1
    end
end
if kept then
    redis.call('PEXPIRE', KEYS[2], math.ceil(holds / 1000))
end
if taken > 0 then
    paid = paid + taken * each
    redis.call('SET', KEYS[1], string.format('%.0f', paid), 'PX', math.max(1, math.ceil((paid - now) / 1000)))
end
local wait = 0
if refused > 0 then
    wait = math.max(0, paid + math.min(refused, tonumber(ARGV[1])) * each - minute - now)
end
return {table.concat(answers), string.format('%.0f', math.ceil(wait))}
