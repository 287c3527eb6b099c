-- Compare and swap over the values of one conversation, with its events and index entries. No rules.
--
-- A value is stored as  version (8 bytes) .. time of writing (13 digits, ms) .. payload.
-- An event is stored as  time of writing (6 bytes, ms, the highest first) .. what it says.
-- A payload starts with how many records it points to (one byte); each is prefix .. the next 16 bytes.
--
-- KEYS  1 live effects (sorted set: id -> end of life)   2 events (list)   3 due   4 unknown (sorted sets)
--       5.. the values compared
-- ARGV  1 new version, or "" to look only
--       2 prefix of record keys
--       3 how many live effects there may be before this one; "" where none is admitted; "end" where none is, and what
--         is written ends a claim: then it is written also where memory is full
--       4 ms until the events may go
--       5 whose log it is, as the bucket's set of logs that are to be sealed names it; "" without events
--       6 number of index operations, each 4 long: key number, "+" | "-", member, ms from now | "inf"
--       then number of events, and the events
--       then for each value: expected version, "=" | "w" | "d", ms to live | "ever" | "keep", payload
-- ARGV may also be one MessagePack array of all these: forty arguments cost a client more than one.
-- A life of "ever" has no end, "keep" leaves the end that stands.
-- Returns {1, now} when written; else {0, now, live count, value.., followed key, followed value, ..}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local argument = ARGV
if #ARGV == 1 then
  argument = cmsgpack.unpack(ARGV[1])
end
local version, prefix, limit, keep = argument[1], argument[2], argument[3], argument[4]
local operations = tonumber(argument[6])
local at = 7 + operations * 4
local events = tonumber(argument[at])
local values = at + events + 1

local unchanged = version ~= ''
if unchanged then
  for i = 5, #KEYS do
    if redis.call('GETRANGE', KEYS[i], 0, 7) ~= argument[values + (i - 5) * 4] then
      unchanged = false
      break
    end
  end
end
-- Only counted here, cleared below: once a script has written anything, Redis lets it go on though memory is
-- full, and a claim that a full Redis took in is one whose outcome it may have no room for.
local function live()
  return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
end
local admits = limit ~= '' and limit ~= 'end'
if unchanged and admits and live() >= tonumber(limit) then
  unchanged = false
end

if not unchanged then
  local known, found, followed = {}, {}, {}
  for i = 5, #KEYS do
    known[KEYS[i]] = true
    found[i - 4] = redis.call('GET', KEYS[i])
  end
  for i = 1, #KEYS - 4 do
    local value = found[i]
    for pointer = 1, value and string.byte(value, 22) or 0 do
      local key = prefix .. string.sub(value, 7 + 16 * pointer, 22 + 16 * pointer)
      if not known[key] then
        known[key] = true
        followed[#followed + 1] = key
        followed[#followed + 1] = redis.call('GET', key)
      end
    end
  end
  local answer = {0, now, live()}
  for i = 1, #KEYS - 4 do
    answer[#answer + 1] = found[i] or ''
  end
  for i = 1, #followed do
    answer[#answer + 1] = followed[i] or ''
  end
  return answer
end

if limit == 'end' then
  -- Redis refuses the first write of a script for want of memory, never a later one, and this one takes none. So an
  -- outcome is recorded in a Redis that is full, which takes no new claim.
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
local stamp = version .. string.format('%013d', now)
for i = 5, #KEYS do
  local from = values + (i - 5) * 4
  local action, life = argument[from + 1], argument[from + 2]
  if action == 'w' then
    local value = stamp .. argument[from + 3]
    if life == 'ever' then
      redis.call('SET', KEYS[i], value)
    elseif life == 'keep' then
      redis.call('SET', KEYS[i], value, 'KEEPTTL')
    else
      redis.call('SET', KEYS[i], value, 'PX', life)
    end
  elseif action == 'd' then
    redis.call('DEL', KEYS[i])
  end
end
if admits then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
for i = 0, operations - 1 do
  local from = 7 + i * 4
  local key = KEYS[tonumber(argument[from])]
  if argument[from + 1] == '-' then
    redis.call('ZREM', key, argument[from + 2])
  elseif argument[from + 3] == 'inf' then
    redis.call('ZADD', key, '+inf', argument[from + 2])
  else
    redis.call('ZADD', key, now + argument[from + 3], argument[from + 2])
  end
end
if events > 0 then
  local when = ''
  local rest = now
  for _ = 1, 6 do
    when = string.char(rest % 256) .. when
    rest = math.floor(rest / 256)
  end
  for i = 1, events do
    redis.call('RPUSH', KEYS[2], when .. argument[at + i])
  end
  if argument[5] ~= '' then
    -- Since when it has lines that are not sealed.
    redis.call('ZADD', string.sub(prefix, 1, -2) .. 'Q', 'NX', now, argument[5])
  end
end
-- What belongs to the whole conversation lives as long as the longest-lived effect in it, the events at least as long
-- as this write says; a shorter life never takes back a longer one.
local unending = redis.call('ZCOUNT', KEYS[1], '+inf', '+inf') > 0
if unending then
  redis.call('PERSIST', KEYS[1])
  redis.call('PERSIST', KEYS[2])
else
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  local ends = now + keep
  if #last > 0 then
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last[2]))
    ends = math.max(ends, tonumber(last[2]))
  end
  ends = string.format('%.0f', ends)
  -- GT takes a key without an end for one that lasts for ever, and lets it.
  if redis.call('PEXPIREAT', KEYS[2], ends, 'NX') == 0 then
    redis.call('PEXPIREAT', KEYS[2], ends, 'GT')
  end
end
return {1, now}
