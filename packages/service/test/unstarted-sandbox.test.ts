import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { builtinTools } from '@gantry/tools'
import { fakeRuntime, printed } from '../../sandbox/src/runtimes/fake.fixture.ts'
import { databaseEngines } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal
const args = { language: 'python', code: 'return 1', runtime: 'process' }

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`a call whose sandbox fails to start three times becomes a dead letter that can be redriven, on ${engine}`, async (t) => {
    const machine = { broken: true }
    const runtime = fakeRuntime({
      kind: 'process',
      isolation: 'namespaces',
      onOpen() {
        if (machine.broken) throw new ToolError('SANDBOX_INIT_FAILED', 'No user namespaces are left.')
      },
      run: () => printed('once'),
    })
    t.after(() => runtime.close())
    const site = await openServiceSite(t, open, { tools: builtinTools(), runtimes: { use: [runtime], pool: false } })
    const { callId, outcome } = await site.call('code:run', args)
    assert.deepEqual([outcome.status, outcome.error?.code], ['failed', 'SANDBOX_INIT_FAILED'])
    assert.deepEqual(outcome.error?.details, {
      runtime: 'process',
      attempts: 3,
      reason: 'No user namespaces are left.',
    })
    assert.equal(runtime.opens, 3)

    const { items } = await site.service.deadLetters({}, operator)
    assert.deepEqual(
      items.map(({ callId: of, code, reason }) => [of, code, reason]),
      [
        [
          callId,
          'SANDBOX_INIT_FAILED',
          'SANDBOX_INIT_FAILED: A sandbox (process) did not start, tried 3 times. No user namespaces are left.',
        ],
      ],
    )

    machine.broken = false
    const again = await site.service.redrive(items[0]?.id ?? '', operator)
    await site.service.wait(again.callId, operator, 20_000, never)
    const { result } = await site.service.call(again.callId, operator)
    assert.equal(result?.status, 'ok', JSON.stringify(result?.error))
    assert.equal((await site.service.deadLetters({}, operator)).items.length, 1, 'a call that works is no dead letter')
  })
}
