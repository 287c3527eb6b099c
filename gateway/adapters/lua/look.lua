-- An event log's seal, and the events behind it. The list may begin with a seal (see seal.lua), which is no event.
--
-- KEYS  1 events (list)
-- ARGV  1 how many events behind the seal to return at most   2 how many of those before them come first, at most
-- Returns the seal, or "" for none, and the events; nothing where there is no list under that name, but something else
local first = redis.pcall('LINDEX', KEYS[1], 0)
if type(first) == 'table' then
  return {}
end
local seal, from, number = '', 0, tonumber(ARGV[1])
if first and string.byte(first, 1) == 255 then
  local a, b, c, d = string.byte(first, 3, 6)
  local sealed = d and ((a * 256 + b) * 256 + c) * 256 + d or 0
  local before = math.min(sealed, tonumber(ARGV[2]))
  seal, from, number = first, 1 + sealed - before, before + number
end
return {seal, unpack(redis.call('LRANGE', KEYS[1], from, from + number - 1))}
