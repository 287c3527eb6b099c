-- Compare and set one of the registry's documents.
--
-- KEYS  1 documents (hash: name -> content)   2 version (counter)
-- ARGV  1 name
--       2 what stands: "=" and argument 3 is its content, or "-" where nothing does
--       3 expected content, or ""
--       4 what to do: "w" and argument 5 is the new content, or "d" to remove
--       5 new content, or ""
-- Returns {1, version} when what stood was as expected; else {0, version}
local found = redis.call('HGET', KEYS[1], ARGV[1])
local as_expected
if ARGV[2] == '=' then
  as_expected = found == ARGV[3]
else
  as_expected = not found
end
if not as_expected then
  return {0, tonumber(redis.call('GET', KEYS[2]) or '0')}
end
if ARGV[4] == 'w' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return {1, redis.call('INCR', KEYS[2])}
