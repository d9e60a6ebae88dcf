import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFairShare, type FairShare } from './fair-share.ts'

const never = new AbortController().signal

/** Asks for slots in this order, and records the tenants that got theirs; `end` releases the first one of a tenant. */
async function ask(fairShare: FairShare, ...tenants: readonly string[]) {
  const had: string[] = []
  const open: { readonly tenant: string; readonly end: () => void }[] = []
  for (const tenant of tenants) {
    void fairShare.take(never, tenant).then((end) => {
      had.push(tenant)
      open.push({ tenant, end })
    })
  }
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  await settle()
  return {
    had,
    async end(tenant: string): Promise<void> {
      const index = open.findIndex((one) => one.tenant === tenant)
      for (const { end } of open.splice(index, 1)) end()
      await settle()
    },
  }
}

test('the next slot goes to the tenant that holds the fewest, although many runs of another tenant wait', async () => {
  const { had, end } = await ask(createFairShare(4), 'a', 'a', 'a', 'a', 'a', 'b', 'd', 'd')
  assert.deepEqual(had, ['a', 'a', 'a', 'b'])
  await end('a')
  assert.deepEqual(had.slice(4), ['d'], 'a has two, b one, d none')
  await end('b')
  assert.deepEqual(had.slice(5), ['d'])
  await end('d')
  assert.deepEqual(had.slice(6), ['a'])
})

test('a tenant gets at most three quarters of the slots, even when no other tenant runs', async () => {
  const fairShare = createFairShare(4)
  const first = await ask(fairShare, 'a', 'a', 'a', 'a', 'a', 'a')
  assert.equal(first.had.length, 3, 'although no other tenant has asked')
  assert.deepEqual((await ask(fairShare, 'd')).had, ['d'], 'the first run of another tenant waits for none')
  await first.end('a')
  assert.equal(first.had.length, 4)
})

test('a single slot goes to one tenant at a time, and work without a tenant may hold all slots', async () => {
  assert.deepEqual((await ask(createFairShare(1), 'a', 'b')).had, ['a'])
  assert.equal((await ask(createFairShare(4), '', '', '', '')).had.length, 4)
})

test('a caller that aborts or comes after close holds no slot, and a second release has no effect', async () => {
  const fairShare = createFairShare(1)
  const end = await fairShare.take(never, 'a')
  const giving = new AbortController()
  const given = assert.rejects(fairShare.take(giving.signal, 'b'), /too long/)
  giving.abort(new Error('too long'))
  await given
  end()
  end()
  const next = await fairShare.take(never)
  const refused = assert.rejects(fairShare.take(never, 'c'), { code: 'SANDBOX_INIT_FAILED' })
  fairShare.close()
  await refused
  next()
  await assert.rejects(fairShare.take(never), { code: 'SANDBOX_INIT_FAILED' })
})
