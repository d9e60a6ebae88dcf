import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { startRig } from './http.fixture.ts'
import { fakeService } from './service.fixture.ts'

const keys: { readonly [key: string]: readonly string[] } = {
  plain: ['demo:*'],
  operator: ['gantry:operate'],
  whole: ['gantry:operate', 'gantry:tenants'],
  owner: ['*'],
}

/** The scope of the metrics, or the status, for each key; `none` sends no key. */
async function scopes(t: Parameters<typeof startRig>[0], host: string): Promise<{ [key: string]: string }> {
  const metrics = async (scope?: string) => ({ type: 'text/plain', text: String(scope) })
  const { server } = await startRig(
    t,
    {
      host,
      async authenticate({ headers }) {
        const permissions = keys[headers.authorization?.replace('Bearer ', '') ?? '']
        if (permissions === undefined) throw new ToolError('UNAUTHENTICATED', 'No.')
        return { identity: { principal: 'p', tenant: 'acme', permissions } }
      },
    },
    Object.assign(fakeService(), { metrics }),
  )
  const answers: { [key: string]: string } = {}
  for (const key of ['none', 'wrong', ...Object.keys(keys)]) {
    const headers = key === 'none' ? {} : { authorization: `Bearer ${key}` }
    const answer = await fetch(`http://127.0.0.1:${server.port}/metrics`, { headers })
    answers[key] = answer.status === 200 ? await answer.text() : String(answer.status)
  }
  return answers
}

test('the metrics of all tenants need gantry:operate and gantry:tenants, on loopback too', async (t) => {
  const whole = { whole: 'whole', owner: 'whole' }
  assert.deepEqual(await scopes(t, '127.0.0.1'), {
    none: 'shared',
    wrong: '401',
    plain: 'shared',
    operator: 'shared',
    ...whole,
  })
  assert.deepEqual(await scopes(t, '0.0.0.0'), {
    none: '401',
    wrong: '401',
    plain: '403',
    operator: 'shared',
    ...whole,
  })
})

test('an unknown audit phase is refused with the list of phases', async (t) => {
  const { ask } = await startRig(t)
  assert.equal((await ask('/v1/audit?phase=refused')).status, 200)
  for (const path of ['/v1/audit?phase=foo', '/v1/audit/export?phase=foo']) {
    const answer = await ask(path)
    const { error } = (await answer.json()) as { error: { code: string; message: string } }
    const { code, message } = error
    assert.deepEqual([answer.status, code], [400, 'PAYLOAD_INVALID'])
    assert.match(message, /start.*intent.*end.*lost.*released.*refused.*admin.*redrive.*discard/)
  }
})
