import { ToolError } from '@gantry/contract'
import { createBatch } from '../../../storage/batch.ts'
import type { RedisConnections } from './connection.ts'
import { listOf, refusalOf } from './reply.ts'

/** What is no text counts as none. */
const readTexts = `
  local found = {}
  for n, key in ipairs(KEYS) do
    local text = redis.pcall('GETRANGE', key, 0, ARGV[1])
    found[n] = type(text) == 'string' and text or ''
  end
  return found`

/**
 * Reads the first bytes of texts, up to and with `last`; none for a key that is not there or holds something else.
 * Messages come in crowds, each with a text to read: those that are asked for in one turn of the event loop are read by
 * one command, which costs a tenth of what as many commands do, also when they travel together.
 */
export function createTextReader(
  redis: Pick<RedisConnections, 'call' | 'pipeline' | 'cluster'>,
): (key: string, last: number) => Promise<Uint8Array> {
  const reading = createBatch<{ readonly key: string; readonly last: number }, Uint8Array>(
    async (asked) => {
      const last = Math.max(...asked.map((one) => one.last))
      if (redis.cluster) return readApart(redis, asked, last)
      const found = listOf(await redis.call(['EVAL', readTexts, asked.length, ...asked.map(({ key }) => key), last]))
      return found.map((text) => (Buffer.isBuffer(text) ? text : Buffer.alloc(0)))
    },
    { atOnce: 4 },
  )
  return (key, last) => reading.add({ key, last })
}

/** Of a cluster each server has some of the keys, so that no command can ask for all. */
async function readApart(
  redis: Pick<RedisConnections, 'pipeline'>,
  asked: readonly { readonly key: string }[],
  last: number,
): Promise<readonly Uint8Array[]> {
  const answers = await redis.pipeline(asked.map(({ key }) => ['GETRANGE', key, 0, last] as const))
  return answers.map((answer) => {
    if (ToolError.is(answer) && refusalOf(answer) !== 'WRONGTYPE') throw answer
    return Buffer.isBuffer(answer) ? answer : Buffer.alloc(0)
  })
}
