-- Add lines to a company's feed, by the clock of the server that has it, and let go of old ones.
--
-- KEYS  1 the feed (stream)
-- ARGV  1 ms that a line stays   2.. the lines, in their order
-- Returns the place of the last one in the feed
local time = redis.call('TIME')
local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
local place
for i = 2, #ARGV do
  place = redis.call('XADD', KEYS[1], 'MINID', '~', oldest, '*', 'e', ARGV[i])
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return place
