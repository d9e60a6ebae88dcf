import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { pgliteDatabase } from './databases.fixture.ts'
import { breakSpool, failingDatabase } from './failing-store.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal
const timeout = 60_000

/** A running call whose first four of ten chunks are stored; `goOn` lets it send the others and end. */
async function streaming(t: TestContext) {
  const failing = failingDatabase(await pgliteDatabase(t))
  const gate = Promise.withResolvers<void>()
  /** Resolves once the outcome is in the spool, or in memory. */
  const kept = Promise.withResolvers<void>()
  const tenChunks = sampleTool({
    name: 'chunks',
    description: 'Ten chunks.',
    effect: 'once',
    async *run() {
      for (let n = 0; n < 10; n += 1) {
        if (n === 4) await gate.promise
        yield { n }
      }
      return { chunks: 10 }
    },
  })
  const site = await openServiceSite(
    t,
    async () => failing.database,
    { tools: [tenChunks] },
    {},
    (line) => {
      if (line.includes('outcomes wait in the spool') || line.includes('outcome not recorded')) kept.resolve()
    },
  )
  const { callId } = await site.service.submit({ kind: 'call', tool: 'test:chunks', args: {} }, operator)
  const chunks = async (): Promise<number> => {
    const [row] = await site.database.query<{ count: number }>(
      `select count(*)::integer as count from events where call_id = $1 and event like '%"chunk"%'`,
      [callId],
    )
    return row?.count ?? 0
  }
  while ((await chunks()) < 4) t.signal.throwIfAborted()
  return { ...failing, ...site, callId, chunks, kept: kept.promise, goOn: () => gate.resolve() }
}

for (const spool of ['takes', 'refuses'] as const) {
  test(`chunks of a call that ends while the store fails are stored with its outcome, when the spool ${spool} it`, {
    timeout,
  }, async (t) => {
    const site = await streaming(t)
    const repair = spool === 'refuses' ? breakSpool(site.data) : () => undefined
    site.fail('all')
    site.goOn()
    await site.kept
    repair()
    site.fail('nothing')
    const outcome = await site.service.wait(site.callId, operator, 20_000, never)
    assert.equal(outcome?.status, 'ok')
    const seen: unknown[] = []
    for await (const event of await site.service.events(site.callId, 0, operator, never))
      if (event.kind === 'chunk') seen.push(event.data)
    assert.deepEqual(
      seen,
      Array.from({ length: 10 }, (_, n) => ({ n })),
    )
  })
}
