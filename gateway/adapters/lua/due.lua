-- What has fallen due, over many index keys, oldest first in each.
--
-- KEYS  due sets (sorted sets: id -> when its lease lapses, ms)
-- ARGV  1 how many about: those that fell due in one key in the same ms are never parted
--       2 only what fell due in the first key after this time in ms, or "-inf"
--       3 only what fell due this many ms ago
-- Returns {key number, id, when it fell due, key number, id, when, ..}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local left = tonumber(ARGV[1])
local from = ARGV[2]
local answer = {}
for i = 1, #KEYS do
  if left <= 0 then
    break
  end
  local found = redis.call('ZRANGEBYSCORE', KEYS[i], from, now, 'WITHSCORES', 'LIMIT', 0, left)
  if #found == 2 * left then
    local last = found[#found]
    while #found > 0 and found[#found] == last do
      found[#found] = nil
      found[#found] = nil
    end
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], last, last)) do
      found[#found + 1] = id
      found[#found + 1] = last
    end
  end
  for place = 1, #found, 2 do
    answer[#answer + 1] = i
    answer[#answer + 1] = found[place]
    answer[#answer + 1] = found[place + 1]
    left = left - 1
  end
  from = '-inf'
end
return answer
