-- Lines of an event log. The list may begin with a seal (see seal.lua), which is no event.
--
-- KEYS  1 events (list)
-- ARGV  1 how many events to pass over   2 how many to return at most
-- Returns the events
local from = tonumber(ARGV[1])
if string.byte(redis.call('LINDEX', KEYS[1], 0) or '', 1) == 255 then
  from = from + 1
end
return redis.call('LRANGE', KEYS[1], from, from + tonumber(ARGV[2]) - 1)
