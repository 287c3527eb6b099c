-- Compare and set a log's seal, and strike the log off the set of those that are to be sealed once nothing is left.
--
-- The seal is the first item of the list of events, so it ends with them and costs no key. It begins with 255; a line
-- begins with a time, of which that byte is far ahead.
--
-- KEYS  1 events (list)   2 logs to be sealed (sorted set)
-- ARGV  1 the seal that has to stand, or "" for none   2 the new one, or "" for a log that is gone
--       3 the log, as the set names it
--       4 the number of the last event that is sealed and told
-- Returns 1 when it was set, or there are no events any more; else 0, also where the last event that the new seal covers
-- is not there, or happened at another time: it was read at a server that has been replaced since, by one without it
local first = redis.call('LINDEX', KEYS[1], 0)
if not first then
  redis.call('ZREM', KEYS[2], ARGV[3])
  return 1
end
local sealed = string.byte(first, 1) == 255
if (sealed and first or '') ~= ARGV[1] or ARGV[2] == '' then
  return 0
end
local a, b, c, d = string.byte(ARGV[2], 3, 6)
local last = redis.call('LINDEX', KEYS[1], ((a * 256 + b) * 256 + c) * 256 + d - (sealed and 0 or 1))
if not last or string.sub(last, 1, 6) ~= string.sub(ARGV[2], 13, 18) then
  return 0
end
if sealed then
  redis.call('LSET', KEYS[1], 0, ARGV[2])
else
  redis.call('LPUSH', KEYS[1], ARGV[2])
end
if redis.call('LLEN', KEYS[1]) - 1 == tonumber(ARGV[4]) then
  redis.call('ZREM', KEYS[2], ARGV[3])
end
return 1
