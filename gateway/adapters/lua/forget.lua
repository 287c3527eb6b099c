-- Take a record that is gone out of the index of what falls due: it ended with its retention time, unswept.
--
-- KEYS  1 due set   2 the record
-- ARGV  1 its id there
-- Returns 1 when taken out, else 0: a record that came back meanwhile is due again
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
