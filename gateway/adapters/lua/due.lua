-- What has fallen due, over many index keys.
--
-- KEYS  due sets (sorted sets: id -> when its lease lapses, ms)
-- ARGV  1 how many at most, over all keys
-- Returns {key number, id, key number, id, ..}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = tonumber(ARGV[1])
local answer = {}
for i = 1, #KEYS do
  if left <= 0 then
    break
  end
  local ids = redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', now, 'LIMIT', 0, left)
  for _, id in ipairs(ids) do
    answer[#answer + 1] = i
    answer[#answer + 1] = id
    left = left - 1
  end
end
return answer
