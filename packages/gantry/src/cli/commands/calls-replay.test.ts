import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServiceRig } from '../service.fixture.ts'

test('calls replay prints the differences, or that there are none, and exits with 1 or 0', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  const { values } = await json(['run', 'demo:add', '{"a":1,"b":2}'])
  const { callId } = values[0]
  const same = await gantry(['calls', 'replay', callId])
  assert.deepEqual(
    [same.code, same.out],
    [0, 'demo:add would be ok (policy: allow); nothing was run.\nNo differences.\n'],
  )
  assert.equal((await json(['calls', 'replay', callId])).values[0].same, true)
  const replayed = await service.replay(callId, { principal: 'o', tenant: 'acme', permissions: [] }, t.signal)
  service.replay = async () => ({
    ...replayed,
    same: false,
    decision: 'deny',
    divergence: { step: 'two', tool: 'my:tool', reason: 'It is \u001b[31mnot on record.' },
    differences: [
      { path: '/status', before: 'ok', after: 'denied' },
      { path: '/output', after: 'x'.repeat(500) },
    ],
    warnings: [{ code: 'CATALOG_STALE', message: 'It was defined anew.' }],
  })
  const { code, out } = await gantry(['calls', 'replay', callId])
  assert.equal(code, 1)
  assert.match(
    out,
    /policy: deny.*\nwarning: It was defined anew\.\nThe replay diverges from the journal at the step two \(my:tool\): /,
  )
  assert.match(out, /\/status +"ok" +"denied"\n\/output +\(absent\) +"x{10,}/)
  assert.ok(!out.includes('\u001b'))
  assert.equal((await gantry(['calls', 'replay', 'nothing'])).code, 1)
})
