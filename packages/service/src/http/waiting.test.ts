import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { startRig } from './http.fixture.ts'
import type { HttpLimits } from './limits.ts'
import { fakeService, stayingTool } from './service.fixture.ts'

/** A server whose callers authenticate as `tenant/principal`, and a call of each tenant that does not end. */
async function rigOf(t: TestContext, limits: Partial<HttpLimits>) {
  const authenticate = async ({ headers }: { readonly headers: { readonly authorization?: string | undefined } }) => {
    const [tenant = '', principal = ''] = (headers.authorization ?? '').split('/')
    return { identity: { tenant, principal, permissions: [] } satisfies Identity }
  }
  const rig = await startRig(t, { limits, authenticate }, fakeService([stayingTool()]))
  const ask = (who: string, path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${rig.server.url}${path}`, {
      ...init,
      headers: { authorization: who, 'content-type': 'application/json' },
    })
  const post = (who: string, waitMs: number): Promise<Response> =>
    ask(who, '/v1/calls', { method: 'POST', body: JSON.stringify({ tool: 'test:stay', waitMs }) })
  const begin = async (who: string): Promise<string> =>
    ((await (await post(who, 0)).json()) as { callId: string }).callId
  /** Responses whose streams stay open: `fetch` cancels the body of one that was garbage-collected. */
  const open: Response[] = []
  /** An event stream that stays open until the test ends it. */
  const follow = async (who: string, callId: string) => {
    const leave = new AbortController()
    const response = await ask(who, `/v1/calls/${callId}/events`, { signal: leave.signal })
    open.push(response)
    return { status: response.status, leave: () => leave.abort() }
  }
  return { ...rig, ask, post, begin, follow }
}

test('a caller at its limit of streams and waiting requests is refused with a time to retry, and others are served', async (t) => {
  const { ask, post, begin, follow, service } = await rigOf(t, { waitingPerPrincipal: 2 })
  const callId = await begin('acme/ada')
  const first = await follow('acme/ada', callId)
  assert.equal((await follow('acme/ada', callId)).status, 200)
  const submitted = service.submitted.length
  for (const refused of [
    await ask('acme/ada', `/v1/calls/${callId}/events`),
    await ask('acme/ada', `/v1/calls/${callId}?waitMs=1000`),
    await post('acme/ada', 1_000),
  ]) {
    const { error } = (await refused.json()) as { error: { code: string; retryable: boolean } }
    assert.deepEqual([refused.status, error.code, error.retryable], [429, 'RATE_LIMITED', true])
    assert.equal(refused.headers.get('retry-after'), '1')
  }
  assert.equal(service.submitted.length, submitted, 'nothing was kept of a call that was refused')
  assert.equal((await ask('acme/ada', `/v1/calls/${callId}`)).status, 200, 'what does not wait is answered')
  assert.equal((await post('acme/ada', 0)).status, 202)
  assert.equal((await follow('acme/bob', callId)).status, 200)
  first.leave()
  let again = await follow('acme/ada', callId)
  while (again.status === 429) again = await follow('acme/ada', callId)
  assert.equal(again.status, 200, 'a place that was left can be taken')
})

test('a waiting request releases its slot with its response', async (t) => {
  const { ask, begin, follow } = await rigOf(t, { waitingPerPrincipal: 1 })
  const callId = await begin('acme/ada')
  for (let time = 0; time < 5; time++) {
    assert.equal((await ask('acme/ada', `/v1/calls/${callId}?waitMs=1`)).status, 200)
    assert.equal((await ask('acme/ada', '/v1/calls/nothing/events')).status, 404)
  }
  assert.equal((await follow('acme/ada', callId)).status, 200)
})

test('the waiting requests of a tenant together do not take the slots of other tenants', async (t) => {
  const { begin, follow } = await rigOf(t, { waitingPerTenant: 3 })
  const [ours, theirs] = [await begin('acme/ada'), await begin('other/ada')]
  for (const who of ['acme/ada', 'acme/bob', 'acme/cem']) assert.equal((await follow(who, ours)).status, 200)
  assert.equal((await follow('acme/dora', ours)).status, 429)
  assert.equal((await follow('other/ada', theirs)).status, 200)
})

test('some connections are reserved for requests that do not wait', async (t) => {
  const { ask, begin, follow } = await rigOf(t, { connections: 20 })
  const tenants = Array.from({ length: 18 }, (_, index) => `t${index}/ada`)
  const callId = await begin('last/ada')
  for (const who of tenants) assert.equal((await follow(who, await begin(who))).status, 200)
  assert.equal((await follow('last/ada', callId)).status, 429)
  assert.equal((await ask('last/ada', `/v1/calls/${callId}`)).status, 200)
})
