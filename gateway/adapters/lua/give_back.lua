-- Take back what was counted, if the window in which it was still runs.
--
-- KEYS  1 the counter (see take.lua)
-- ARGV  1 amount, 2 when the window began
-- Returns 1 when taken back, else 0
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
local colon = string.find(value, ':', 1, true)
if string.sub(value, 1, colon - 1) ~= ARGV[2] then
  return 0
end
local count = math.max(0, tonumber(string.sub(value, colon + 1)) - tonumber(ARGV[1]))
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. string.format('%.0f', count), 'KEEPTTL')
return 1
