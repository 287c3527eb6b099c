-- Which of these commands this user may not run on a key of the ledger's, or the server does not have by that name.
--
-- KEYS  1 a key
-- ARGV  the commands
-- Returns those, or nothing where the server does not tell (before Redis 7.0)
if not redis.acl_check_cmd then
  return false
end
local refused = {}
local key = KEYS[1]
for _, command in ipairs(ARGV) do
  -- As many arguments as any of them wants, each as good as a key: a server may end over a command that has too few.
  local known, allowed = pcall(redis.acl_check_cmd, command, key, key, key, key)
  if not known or not allowed then
    refused[#refused + 1] = command
  end
end
return refused
