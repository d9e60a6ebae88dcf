/**
 * What has to be done in one step at the server. The keys are the stream and the *gone set*: ids of entries that were
 * removed before they were settled, each with the time from which somebody may take it. The server forgets such an
 * entry when it tells of it; in the set it stays until the one who was told has settled it.
 */

const now = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`

/**
 * Takes over what nobody touched for long. ARGV: group, consumer, idle ms, where to begin, how many. Answers where to go
 * on, entries with their counts, and ids that are gone. A server before 7 does not know that an entry is gone until it
 * is asked for.
 */
export const sweepScript = `${now}
local found = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5], 'JUSTID')
local gone = found[3] or {}
local taken = {}
for _, id in ipairs(found[2]) do
  local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id)[1]
  if entry then
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
    taken[#taken + 1] = {id, entry[2], pending[4]}
  else
    redis.call('XACK', KEYS[1], ARGV[1], id)
    gone[#gone + 1] = id
  end
end
for _, id in ipairs(gone) do redis.call('ZADD', KEYS[2], 'NX', now, id) end
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[5])
for _, id in ipairs(due) do redis.call('ZADD', KEYS[2], now + ARGV[3], id) end
return {found[1], taken, due}`

/**
 * Lets others take entries after a delay, unless they are touched again before. ARGV: group, consumer, idle ms, delay,
 * ids. One that another consumer has by now is left to it. One that is gone is left alone, because claiming it would
 * make the server forget it without a word.
 */
export const touchScript = `${now}
for at = 5, #ARGV do
  local id = ARGV[at]
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if pending and pending[2] == ARGV[2] and redis.call('XRANGE', KEYS[1], id, id)[1] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[3] - ARGV[4], 'JUSTID')
  end
  redis.call('ZADD', KEYS[2], 'XX', now + ARGV[4], id)
end`

/**
 * Removes consumers that are idle for long and have nothing pending, and, if asked, entries before the first that some
 * group has yet to read or to settle. ARGV: group, consumer, idle ms, 1 to remove entries.
 */
export const tidyScript = `local function fields(flat)
  local named = {}
  for at = 1, #flat, 2 do named[flat[at]] = flat[at + 1] end
  return named
end
local function before(a, b)
  local am, as = a:match('(%d+)-(%d+)')
  local bm, bs = b:match('(%d+)-(%d+)')
  if am == bm then am, bm = as, bs end
  if #am ~= #bm then return #am < #bm end
  return am < bm
end
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local one = fields(flat)
  if one.name ~= ARGV[2] and one.pending == 0 and one.idle > tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], one.name)
  end
end
if ARGV[4] ~= '1' then return end
local first
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local one = fields(flat)
  local pending = redis.call('XPENDING', KEYS[1], one.name)
  local from = pending[1] > 0 and pending[2] or one['last-delivered-id']
  if not first or before(from, first) then first = from end
end
redis.call('XTRIM', KEYS[1], 'MINID', '~', first, 'LIMIT', 0)`
