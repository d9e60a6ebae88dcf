import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createClient } from '@gantry/client'
import type { Identity } from '@gantry/contract'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { newApiKey } from '../src/config/service-files.ts'
import { anyOf, keyFileAuthenticator } from '../src/http/authentication/authenticator.ts'
import { createHttpServer } from '../src/http/server.ts'
import type { Service } from '../src/http/service.ts'
import { ada, bob, carl, eve, ledgerOf } from './approvals.fixture.ts'
import { eventually, openBrokerSite } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

const file = redisForFile()

/** Responses of the API to an identity. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
type Ask = (as: Identity, path: string, body?: unknown) => Promise<{ status: number; value: any }>

async function openHttp(t: TestContext, service: Service, people: readonly Identity[]) {
  const keys = new Map(people.map((who) => [who.principal, newApiKey()]))
  const keyOf = ({ principal }: Identity): string => keys.get(principal) ?? ''
  const known = anyOf(people.map((who) => keyFileAuthenticator(keyOf(who), who)))
  const log = { debug: () => undefined, info: () => undefined, error: () => undefined }
  const server = await createHttpServer({ service, authenticate: known.authenticate, log })
  t.after(() => server.close({ graceMs: 1_000 }))
  const ask: Ask = async (as, path, body) => {
    const headers = { authorization: `Bearer ${keyOf(as)}`, 'content-type': 'application/json' }
    const init = body === undefined ? { headers } : { method: 'POST', body: JSON.stringify(body), headers }
    const response = await fetch(`${server.url}${path}`, init)
    return { status: response.status, value: await response.json() }
  }
  const clientOf = (as: Identity) => createClient({ url: server.url, key: keyOf(as) })
  return { ask, clientOf }
}

test('approvals over HTTP', async (t) => {
  const { ran, tools } = ledgerOf()
  const site = await openServiceSite(t, async (own) => (await postgresDatabase(own)).database, { tools })
  await t.test('with four people', async (own) => {
    const { ask, clientOf } = await openHttp(own, site.service, [ada, bob, carl, eve])
    const asking = async (args: object = {}) => {
      const { status, value } = await ask(ada, '/v1/calls', { tool: 't:pay', args, waitMs: 0 })
      assert.equal(status, 202)
      await eventually(async () => {
        const { value: view } = await ask(ada, `/v1/calls/${value.callId}`)
        return view.state === 'asked' ? view : undefined
      }, 'a call that is asked')
      const { value: page } = await ask(bob, '/v1/approvals')
      const { id } = page.items.find((item: { callId: string }) => item.callId === value.callId)
      return { callId: value.callId, id }
    }
    const codeOf = async (as: Identity, path: string, body?: unknown): Promise<unknown[]> => {
      const { status, value } = await ask(as, path, body)
      return [status, value.error?.code]
    }

    await own.test(
      'a call that waits for approval answers 202 with its state, and its result once it is approved',
      async () => {
        const { callId, id } = await asking({ n: 1 })
        const again = await ask(ada, `/v1/calls/${callId}?waitMs=50`)
        assert.deepEqual([again.status, again.value.state], [200, 'asked'])
        const short = await ask(ada, '/v1/calls', { tool: 't:pay', args: { n: 2 }, waitMs: 500 })
        assert.deepEqual([short.status, short.value.state], [202, 'asked'])
        const { status, value } = await ask(bob, `/v1/approvals/${id}`, { decision: 'approve', reason: 'fine' })
        assert.deepEqual([status, value.state, value.decided.by], [200, 'approved', 'bob'])
        const done = await ask(ada, `/v1/calls/${callId}?waitMs=10000`)
        assert.deepEqual([done.value.state, done.value.result.output.args], ['ok', { n: 1 }])
        assert.deepEqual(ran.splice(0), ['pay {"n":1} ada'])
      },
    )

    await own.test(
      'the caller, principals without the permission and other tenants cannot approve; an approver can',
      async () => {
        const { callId, id } = await asking()
        const path = `/v1/approvals/${id}`
        const yes = { decision: 'approve' }
        assert.deepEqual(await codeOf(ada, path, yes), [403, 'DENIED'])
        assert.deepEqual(await codeOf(carl, path, yes), [403, 'DENIED'])
        assert.deepEqual(await codeOf(carl, path), [403, 'DENIED'])
        assert.deepEqual(await codeOf(eve, path, yes), [404, 'NOT_FOUND'])
        assert.deepEqual(await codeOf(eve, path), [404, 'NOT_FOUND'])
        assert.deepEqual(await codeOf({ ...bob, principal: 'missing' }, path, yes), [401, 'UNAUTHENTICATED'])
        assert.deepEqual((await ask(eve, '/v1/approvals?state=all')).value.items, [])
        assert.deepEqual((await ask(carl, '/v1/approvals')).value.items, [])
        assert.deepEqual(ran, [])
        assert.deepEqual(await codeOf(bob, path, yes), [200, undefined])
        assert.equal((await ask(ada, `/v1/calls/${callId}?waitMs=10000`)).value.state, 'ok')
        assert.deepEqual(ran.splice(0), ['pay {} ada'])
      },
    )

    await own.test('a decision with arguments, an identity or any other extra member is rejected', async () => {
      const { callId, id } = await asking({ amount: 5 })
      const path = `/v1/approvals/${id}`
      for (const more of [{ args: { amount: 5_000 } }, { by: 'bob' }, { principal: 'bob' }, { tenant: 'acme' }]) {
        const refusal = await codeOf(bob, path, { decision: 'approve', ...more })
        assert.deepEqual(refusal, [400, 'PAYLOAD_INVALID'], JSON.stringify(more))
      }
      for (const decision of ['approved', 'APPROVE', '', null, true, ['approve']])
        assert.deepEqual(await codeOf(bob, path, { decision }), [400, 'PAYLOAD_INVALID'], JSON.stringify(decision))
      assert.deepEqual(ran, [])
      await ask(bob, path, { decision: 'deny' })
      const { value } = await ask(ada, `/v1/calls/${callId}?waitMs=10000`)
      assert.deepEqual([value.state, value.result.error.code], ['denied', 'DENIED'])
    })

    await own.test('other arguments under the idempotency key of an approved call are a conflict', async () => {
      const first = await ask(ada, '/v1/calls', { tool: 't:pay', args: { n: 1 }, waitMs: 0, idempotencyKey: 'k' })
      const other = { tool: 't:pay', args: { n: 1_000 }, waitMs: 0, idempotencyKey: 'k' }
      assert.deepEqual(await codeOf(ada, '/v1/calls', other), [409, 'IDEMPOTENCY_CONFLICT'])
      const { id } = await eventually(async () => {
        const { items } = (await ask(bob, '/v1/approvals')).value
        return items.find((item: { callId: string }) => item.callId === first.value.callId)
      }, 'a question')
      await ask(bob, `/v1/approvals/${id}`, { decision: 'approve' })
      await ask(ada, `/v1/calls/${first.value.callId}?waitMs=10000`)
      assert.deepEqual(ran.splice(0), ['pay {"n":1} ada'])
    })

    await own.test('the client waits for a call while another client approves it', async () => {
      const result = clientOf(ada).call('t:pay', { n: 7 })
      const approver = clientOf(bob)
      const question = await eventually(async () => {
        const { items } = await approver.approvals.list()
        for (const { id } of items) {
          const whole = await approver.approvals.get(id)
          if (JSON.stringify(whole.args) === '{"n":7}') return whole
        }
        return undefined
      }, 'a question')
      assert.equal((await approver.approvals.approve(question.id, { reason: 'fine' })).state, 'approved')
      assert.equal((await result).status, 'ok')
      await assert.rejects(approver.approvals.deny(question.id), { code: 'INPUT_INVALID' })
    })
  })
})

test('a gateway’s call that needs approval gets its reply over Redis once a person has decided', async (t) => {
  const { url } = await file.server(t)
  const database = await pgliteDatabase(t)
  const policy = { rules: [{ allow: '*' }, { ask: 'test:note' }] }
  const site = await openBrokerSite(t, { redisUrl: url, database, policy })
  const person: Identity = { principal: 'bob', tenant: 'red', permissions: ['gantry:approve'] }
  const decide = (text: string, decision: 'approve' | 'deny') =>
    eventually(async () => {
      const { items } = await site.service.approvals.list({}, person)
      for (const { id } of items) {
        const { args, principal } = await site.service.approvals.get(id, person)
        if (JSON.stringify(args) !== JSON.stringify({ text })) continue
        assert.equal(principal, 'discord:1')
        return site.service.approvals.decide(id, { decision }, person)
      }
      return undefined
    }, `a question about ${text}`)

  const yes = await site.call({ tool_args: { text: 'yes' } })
  const no = await site.call({ tool_args: { text: 'no' } })
  await decide('no', 'deny')
  const denied = await site.reply(no)
  assert.equal(denied.code, 'DENIED')
  assert.deepEqual(site.notes, [])
  await decide('yes', 'approve')
  assert.match((await site.reply(yes)).result, /^discord:1 1$/)
  assert.deepEqual(
    site.notes.map(({ text }) => text),
    ['yes'],
  )
  // An approval does not cover other arguments, with or without the same idempotency key.
  const five = await site.call({ idem_key: 'k', tool_args: { text: 'five' } })
  await decide('five', 'approve')
  assert.match((await site.reply(five)).result, /^discord:1 2$/)
  const forged = await site.call({ idem_key: 'k', tool_args: { text: 'five thousand' } })
  assert.equal((await site.reply(forged)).code, 'IDEMPOTENCY_CONFLICT')
  const more = await site.call({ tool_args: { text: 'five thousand' } })
  await decide('five thousand', 'deny')
  assert.equal((await site.reply(more)).code, 'DENIED')
  assert.equal(site.notes.length, 2)
  // Permissions named in a message are ignored: the identity comes from the caller's session.
  const own = await site.call({ tool_args: { text: 'own' }, ctx: { trace_id: 'trace-1', permissions: ['*'] } })
  const self: Identity = { principal: 'discord:1', tenant: 'red', permissions: ['*'] }
  const question = await eventually(async () => (await site.service.approvals.list({}, self)).items[0], 'a question')
  await assert.rejects(site.service.approvals.decide(question.id, { decision: 'approve' }, self), { code: 'DENIED' })
  await decide('own', 'deny')
  assert.equal((await site.reply(own)).code, 'DENIED')
})
