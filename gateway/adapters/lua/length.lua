-- How many events a log has. The list may begin with a seal (see seal.lua), which is no event.
--
-- KEYS  1 events (list)
-- ARGV  none
-- Returns the number of its last event
local length = redis.call('LLEN', KEYS[1])
if string.byte(redis.call('LINDEX', KEYS[1], 0) or '', 1) == 255 then
  length = length - 1
end
return length
