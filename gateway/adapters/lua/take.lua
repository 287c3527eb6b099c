-- Count an amount against a limit, with the end of its window, in one step (7.5).
--
-- A counter is stored as  when its window began (ms) .. ":" .. count.
--
-- KEYS  1 the counter
-- ARGV  1 amount, 2 most, 3 ms of a window; whole numbers below 2^53
-- Returns {1, when the window began, ms left} when counted; else {0, .., ..} and nothing changed
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local amount, most, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local since, count = now, 0
local value = redis.call('GET', KEYS[1])
if value then
  local colon = string.find(value, ':', 1, true)
  since, count = tonumber(string.sub(value, 1, colon - 1)), tonumber(string.sub(value, colon + 1))
  -- A rule whose window was made shorter, or a clock that was set back: the window is over.
  if now >= since + window or now < since then
    since, count = now, 0
  end
end
local left = since + window - now
if count + amount > most then
  return {0, since, left}
end
redis.call('SET', KEYS[1], string.format('%.0f:%.0f', since, count + amount), 'PX', string.format('%.0f', left))
return {1, since, left}
