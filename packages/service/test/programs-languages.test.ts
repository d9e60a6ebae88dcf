import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import type { Result } from '@gantry/contract'
import { ada, bob, ledgerOf, questionOf, stateOf } from './approvals.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const noSandbox = existsSync('/usr/bin/bwrap') ? false : 'needs bubblewrap'

const programs = {
  python: `print('before')
one, two = await asyncio.gather(tools.t.plain(n=1), tools.t.plain(n=2))
paid = await tools.t.pay(n=one['args']['n'] + two['args']['n'])
print('after')
await asyncio.sleep(0.01)
return (await tools.t.plain(n=paid['args']['n'] + 1))['args']['n']`,
  workflow: `print("before")
both := all(run("t:plain", {n: 1}), run("t:plain", {n: 2}))
paid := run("t:pay", {n: both[0].args.n + both[1].args.n})
print("after")
sleep(10)
return run("t:plain", {n: paid.args.n + 1}).args.n`,
}

for (const [language, code] of Object.entries(programs)) {
  test(`a durable program in ${language} waits for approval and resumes there, with each call made once`, {
    skip: language === 'python' ? noSandbox : false,
  }, async (t) => {
    const { tools, ran } = ledgerOf()
    const { service } = await openServiceSite(t, pgliteDatabase, { tools })
    const input = { kind: 'call', tool: 'code:program', args: { code, language } } as const
    const { callId } = await service.submit(input, ada)
    await stateOf({ service } as never, callId, 'asked')
    assert.deepEqual(ran.toSorted(), ['plain {"n":1} ada', 'plain {"n":2} ada'])
    const { id } = await questionOf({ service } as never, callId)
    await service.approvals.decide(id, { decision: 'approve' }, bob)
    await service.wait(callId, ada, 30_000, never)
    const { state, attempts, result } = await service.call(callId, ada)
    assert.deepEqual([state, attempts, result?.output], ['ok', 2, 4], JSON.stringify(result?.error))
    assert.deepEqual(ran.slice(2), ['pay {"n":3} ada', 'plain {"n":4} ada'])
    assert.equal((result as Result).program?.printed, 'before\nafter\n')
  })
}
