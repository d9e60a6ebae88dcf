import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails, serve } from './egress.fixture.ts'
import { createEgress } from './egress.ts'

const { signal } = new AbortController()

test('setRules applies to the next request at once, before and after the guard is created', async (t) => {
  const { origin, seen } = await serve(t)
  const allow = [{ origin, private: true }]
  const egress = createEgress({ allow })
  t.after(() => egress.close())
  const ask = () => egress.request({ owner: 'test', url: origin, signal })
  const early = ask()
  egress.setRules([])
  await assert.rejects(early, fails('EGRESS_DENIED'))
  egress.setRules(allow)
  assert.equal(await (await ask()).text(), 'ok')
  egress.setRules([])
  await assert.rejects(ask(), fails('EGRESS_DENIED'))
  assert.equal(seen.length, 1)
})
