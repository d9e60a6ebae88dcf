import type { Delivery } from '../transport.ts'
import type { RedisConnections } from './connection.ts'
import { type Command, fieldsOf, listOf, numberOf, type Reply, refusalOf, textOf } from './reply.ts'

interface GroupOptions {
  readonly redis: RedisConnections
  readonly stream: string
  readonly group: string
  readonly consumer: string
  readonly field: string
  readonly claimIdleMs: number
}

/** The blocking time of a read; an aborted wait ends within it. */
const waitMs = 100

/** The commands of one consumer of a group; each rejects with STORE_UNAVAILABLE. */
interface Group {
  /** Creates the group, which begins with the oldest entry; does nothing when it exists. */
  create(): Promise<void>
  /** Reads entries that no consumer has read yet, the oldest first; waits briefly for the first. */
  read(max: number): Promise<readonly Delivery[]>
  /** Reads this consumer's pending entries after the id. Removed ones are left to `sweep`. */
  reread(after: string, max: number): Promise<{ readonly deliveries: readonly Delivery[]; readonly last?: string }>
  /** Claims idle entries, and ids of removed entries; starts at the id, and returns where to continue. */
  sweep(from: string, max: number): Promise<{ readonly deliveries: readonly Delivery[]; readonly next: string }>
  /** Renews these entries: no other consumer gets them before the delay, at most the idle time, has passed. */
  touch(ids: readonly string[], delayMs: number): Promise<void>
  settle(ids: readonly string[]): Promise<void>
  tidy(reapIdleMs: number, removeSettled: boolean): Promise<void>
  lag(): Promise<number>
  close(): Promise<void>
}

export function openGroup({ redis, stream, group, consumer, field, claimIdleMs }: GroupOptions): Group {
  const reader = redis.waiting(waitMs)
  const gone = redis.cluster ? besideKey(stream, `:gone:${group}`) : `${stream}:gone:${group}`
  const evaluate = (script: string, ...args: (string | number)[]): Promise<Reply> =>
    redis.call(['EVAL', script, 2, stream, gone, group, consumer, ...args])
  const entries = async (from: string, max: number, wait: readonly (string | number)[]): Promise<readonly Reply[]> => {
    const ask: Command = ['XREADGROUP', 'GROUP', group, consumer, 'COUNT', max, ...wait, 'STREAMS', stream, from]
    return listOf(listOf(listOf(await reader.call(ask))[0])[1])
  }
  const countsOf = async (ids: readonly string[]): Promise<readonly number[]> => {
    const answers = await all(
      redis,
      ids.map((id): Command => ['XPENDING', stream, group, id, id, 1]),
    )
    return answers.map((answer) => numberOf(listOf(listOf(answer)[0])[3]) ?? 1)
  }
  return {
    async create() {
      await redis.call(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM']).catch((error: unknown) => {
        if (refusalOf(error) !== 'BUSYGROUP') throw error
      })
    },
    async read(max) {
      const found = await entries('>', max, ['BLOCK', waitMs])
      return found.map((entry) => deliveryOf(stream, field, listOf(entry), 1))
    },
    async reread(after, max) {
      const found = (await entries(after, max, [])).map(listOf)
      const there = found.filter(([, fields]) => fields !== null)
      const counts = await countsOf(there.map(([id]) => textOf(id)))
      const deliveries = there.map((entry, at) => deliveryOf(stream, field, entry, counts[at] ?? 1))
      const last = found.at(-1)
      return { deliveries, ...(last === undefined ? {} : { last: textOf(last[0]) }) }
    },
    async sweep(from, max) {
      const [next, taken, due] = listOf(await evaluate(sweepScript, claimIdleMs, from, max))
      const there = listOf(taken).map(listOf)
      const deliveries = there.map((entry) => deliveryOf(stream, field, entry, numberOf(entry[2]) ?? 1))
      const missing = listOf(due).map((id) => goneDelivery(stream, textOf(id)))
      return { deliveries: [...deliveries, ...missing], next: textOf(next) }
    },
    async touch(ids, delayMs) {
      await evaluate(touchScript, claimIdleMs, Math.round(delayMs), ...ids)
    },
    async settle(ids) {
      await all(redis, [
        ['XACK', stream, group, ...ids],
        ['ZREM', gone, ...ids],
      ])
    },
    async tidy(reapIdleMs, removeSettled) {
      await evaluate(tidyScript, reapIdleMs, removeSettled ? 1 : 0)
    },
    async lag() {
      const [groups, length] = await all(redis, [
        ['XINFO', 'GROUPS', stream],
        ['XLEN', stream],
      ])
      const own = listOf(groups)
        .map(fieldsOf)
        .find((fields) => textOf(fields.get('name')) === group)
      const unread = numberOf(own?.get('lag'))
      // After removals from the middle the server does not know the lag; the length of the stream is an upper bound.
      return unread === undefined ? (numberOf(length) ?? 0) : unread + (numberOf(own?.get('pending')) ?? 0)
    },
    close: () => reader.close(),
  }
}

/** Runs several commands, each of which must succeed. */
async function all(redis: RedisConnections, commands: readonly Command[]): Promise<readonly Reply[]> {
  const answers = await redis.pipeline(commands)
  return answers.map((answer) => {
    if (answer instanceof Error) throw answer
    return answer
  })
}

/**
 * The name of a key on the same cluster server as another key: the slot is computed from the text between the first
 * braces of a name, unless that is empty, else from the whole name.
 */
export function besideKey(key: string, suffix: string): string {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open)
  return close > open + 1 ? `${key}${suffix}` : `{${key}}${suffix}`
}

/**
 * Scripts that are atomic at the server. Their keys are the stream and the *gone set*: ids of entries that were removed
 * before they were settled, each with the time from which a consumer may take it. The server forgets such an entry when
 * it reports it; the set keeps it until the consumer that got the report has settled it.
 */

const now = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`

/**
 * Claims idle entries. ARGV: group, consumer, idle ms, start id, count. Returns where to continue, entries with their
 * delivery counts, and ids of removed entries. A server before 7 notices a removed entry only when it is claimed.
 */
const sweepScript = `${now}
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
 * Sets the idle time of entries so that others may claim them after a delay, unless they are renewed before. ARGV:
 * group, consumer, idle ms, delay, ids. An entry that another consumer has claimed is left to it. A removed entry is
 * skipped, because claiming it would make the server forget it.
 */
const touchScript = `${now}
for at = 5, #ARGV do
  local id = ARGV[at]
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if pending and pending[2] == ARGV[2] and redis.call('XRANGE', KEYS[1], id, id)[1] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[3] - ARGV[4], 'JUSTID')
  end
  redis.call('ZADD', KEYS[2], 'XX', now + ARGV[4], id)
end`

/**
 * Removes idle consumers without pending entries and, if requested, the entries that every group has settled. ARGV:
 * group, consumer, idle ms, 1 to remove entries.
 */
const tidyScript = `local function fields(flat)
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

/**
 * A stream entry as a message: the envelope is in its configured field, or in the only one; other fields are its
 * headers.
 */
function deliveryOf(stream: string, field: string, entry: readonly Reply[], deliveries: number): Delivery {
  const position = textOf(entry[0])
  const headers = new Map<string, Uint8Array>()
  const flat = listOf(entry[1])
  for (let at = 0; at + 1 < flat.length; at += 2) headers.set(textOf(flat[at]), bytesOf(flat[at + 1]))
  const [only] = headers.keys()
  const name = headers.size === 1 && only !== undefined ? only : field
  const bytes = headers.get(name) ?? new Uint8Array()
  headers.delete(name)
  return {
    id: `${stream}/${position}`,
    body: { kind: 'message', message: { bytes, headers, source: stream, position } },
    deliveries,
  }
}

/** A removed entry, of which only the id is known. */
function goneDelivery(stream: string, position: string): Delivery {
  return { id: `${stream}/${position}`, body: { kind: 'gone', source: stream, position }, deliveries: 1 }
}

/** The stream id of a delivery. */
export function positionOf({ body }: Delivery): string | undefined {
  if (body.kind === 'gone') return body.position
  return body.kind === 'message' ? body.message.position : undefined
}

function bytesOf(reply: Reply | undefined): Uint8Array {
  return Buffer.isBuffer(reply) ? reply : new Uint8Array()
}
