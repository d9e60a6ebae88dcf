import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails, serve } from './egress.fixture.ts'
import { lazyEgress } from './lazy-egress.ts'

const { signal } = new AbortController()

test('rules that are set hold for a request that follows without a wait, before and after the guard is built', async (t) => {
  const { origin, seen } = await serve(t)
  const allow = [{ origin, private: true }]
  const egress = lazyEgress({ allow })
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
