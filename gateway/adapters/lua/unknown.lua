-- Unknown outcomes, over many index keys, in the order of their ids within each.
--
-- KEYS  unknown sets (sorted sets: id -> since when, ms)
-- ARGV  1 how many at most, over all keys
--       2 of the first key only those behind this id (16 bytes, or "" for all)
-- Returns {key number, id, key number, id, ..}
local left, last = tonumber(ARGV[1]), ARGV[2]

-- By bytes: Lua's own comparison of strings goes by the server's locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

local answer = {}
for i = 1, #KEYS do
  if left <= 0 then
    break
  end
  local ids = redis.call('ZRANGE', KEYS[i], 0, -1)
  table.sort(ids, before)
  for _, id in ipairs(ids) do
    if left <= 0 then
      break
    end
    if i > 1 or before(last, id) then
      answer[#answer + 1] = i
      answer[#answer + 1] = id
      left = left - 1
    end
  end
end
return answer
