import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFairShare, type FairShare } from './fair-share.ts'

const never = new AbortController().signal

/** Asks for turns in this order, and notes the tenants that have had theirs; `end` ends the first one of a tenant. */
async function ask(turns: FairShare, ...tenants: readonly string[]) {
  const had: string[] = []
  const open: { readonly tenant: string; readonly end: () => void }[] = []
  for (const tenant of tenants) {
    void turns.take(never, tenant).then((end) => {
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

test('the next thread is of the tenant that has none, although many runs of another one wait', async () => {
  const { had, end } = await ask(createFairShare(2), 'a', 'a', 'a', 'a', 'a', 'd', 'd')
  assert.deepEqual(had, ['a', 'a'])
  await end('a')
  assert.deepEqual(had, ['a', 'a', 'd'])
  await end('d')
  assert.deepEqual(had.slice(3), ['d'], 'a has its share')
  await end('d')
  await end('a')
  assert.deepEqual(had.slice(4), ['a'])
})

test('a tenant has all threads while no other asks, and three quarters once another one has', async () => {
  const turns = createFairShare(4)
  const first = await ask(turns, 'a', 'a', 'a', 'a', 'a', 'a')
  assert.equal(first.had.length, 4)
  const other = await ask(turns, 'd')
  await first.end('a')
  assert.deepEqual([first.had.length, other.had], [4, ['d']])
  await other.end('d')
  assert.equal(first.had.length, 4, 'one is kept for others, although two runs wait')
  assert.deepEqual((await ask(turns, 'd')).had, ['d'], 'which is why the next of another tenant waits for none')
  await first.end('a')
  assert.equal(first.had.length, 5)
})

test('a tenant that asked long ago keeps no thread from others', async () => {
  let time = 0
  const turns = createFairShare(4, () => time)
  await (await ask(turns, 'd')).end('d')
  const { had, end } = await ask(turns, 'a', 'a', 'a', 'a', 'a')
  assert.equal(had.length, 3)
  time += 600_000
  await end('a')
  assert.equal(had.length, 5)
})

test('who gives up or comes after the end holds nothing, and a turn ends once', async () => {
  const turns = createFairShare(1)
  const end = await turns.take(never, 'a')
  const giving = new AbortController()
  const given = assert.rejects(turns.take(giving.signal, 'b'), /too long/)
  giving.abort(new Error('too long'))
  await given
  end()
  end()
  const next = await turns.take(never)
  const refused = assert.rejects(turns.take(never, 'c'), { code: 'SANDBOX_INIT_FAILED' })
  turns.close()
  await refused
  next()
  await assert.rejects(turns.take(never), { code: 'SANDBOX_INIT_FAILED' })
})
