import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createClient } from '@gantry/client'
import type { Identity } from '@gantry/contract'
import { type AuthenticationSettings, defaultAuthentication } from '../src/config/authentication-settings.ts'
import { newApiKey } from '../src/config/service-files.ts'
import type { ApprovalSettings } from '../src/config/service-settings.ts'
import { owner } from '../src/config/service-settings.ts'
import { openAuthentication } from '../src/http/authentication/open-authentication.ts'
import { createHttpServer } from '../src/http/server.ts'
import { createBus } from '../src/observe/bus.ts'
import { ownerApproval } from '../src/storage/approvals/approvals.ts'
import type { Queries } from '../src/storage/databases/database.ts'
import { stub } from '../src/stub.fixture.ts'
import { ledgerOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

/** Opens a fresh embedded service over HTTP, and a client with the key of its key file. */
async function openFresh(t: TestContext) {
  const { ran, tools } = ledgerOf()
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const key = newApiKey()
  const { authenticate, close } = await openAuthentication({
    database: site.database.asService(),
    bus: createBus(),
    key,
    owner,
    settings: { authentication: defaultAuthentication },
  })
  t.after(close)
  const log = { debug: () => undefined, info: () => undefined, error: () => undefined }
  const server = await createHttpServer({ service: site.service, authenticate, log })
  t.after(() => server.close({ graceMs: 1_000 }))
  const clientOf = (text: string) => createClient({ url: server.url, key: text })
  const client = clientOf(key)
  const ask = async (by = client) => {
    const { callId } = await by.submit('t:pay', { n: 1 })
    const question = await eventually(async () => {
      const { items } = await client.approvals.list()
      return items.find((item) => item.callId === callId)
    }, 'a question')
    return { callId, id: question.id }
  }
  return { site, ran, client, clientOf, ask }
}

test('the only key of a fresh service may approve its own call, and the audit log records the self-approval', async (t) => {
  const { site, ran, client, clientOf, ask } = await openFresh(t)
  const first = await ask()
  const view = await client.approvals.approve(first.id, { reason: 'mine' })
  assert.deepEqual([view.state, view.decided?.by, view.decided?.as], ['approved', 'owner', 'owner'])
  await eventually(async () => ((await client.get(first.callId)).state === 'ok' ? true : undefined), 'the outcome')
  assert.deepEqual(ran, ['pay {"n":1} owner'])
  const rows = await site.database.query<{ phase: string; tool: string; details: string }>(
    `select phase, tool, details from audit where call_id = $1 and details is not null order by seq`,
    [first.callId],
  )
  const entries = rows.map(({ phase, tool, details }) => [phase, tool, JSON.parse(details)] as const)
  assert.equal(entries.find(([, tool]) => tool === 'approvals.approve')?.[2].self, 'owner')
  assert.equal(entries.find(([phase]) => phase === 'intent')?.[2].approvedSelf, 'owner')

  await t.test('once a second key exists, neither the owner nor any other key may approve its own call', async () => {
    const open = await ask()
    const { text = '', key } = await client.keys.create({
      name: 'twin',
      principal: 'owner',
      permissions: ['*'],
    })
    const refused = { code: 'DENIED', message: /its own call/ }
    await assert.rejects(client.approvals.approve(open.id), refused)
    await assert.rejects(clientOf(text).approvals.approve(open.id), refused, 'a key of the same name and rights')
    const rotated = await client.keys.rotate(key.id, { overlapMs: 60_000 })
    for (const one of [text, rotated.text ?? '']) {
      await assert.rejects(clientOf(one).approvals.approve(open.id), refused, 'nor either key of a rotated pair')
    }
    const other = await client.keys.create({ name: 'bob', principal: 'bob', permissions: ['t:*', 'gantry:approve'] })
    const theirs = await ask(clientOf(other.text ?? ''))
    await assert.rejects(clientOf(other.text ?? '').approvals.approve(theirs.id), refused, 'nor another principal')
    assert.equal((await clientOf(other.text ?? '').approvals.approve(open.id)).decided?.as, undefined)
    assert.equal((await client.approvals.approve(theirs.id)).decided?.as, undefined, 'each decides for the other')
  })
})

test('self-approval is allowed only to the key file’s owner, by configuration or while no other credential exists', async () => {
  const jwt = stub<AuthenticationSettings['jwt']>([{ issuer: 'https://i.example' }])
  const may = (
    given: {
      self?: ApprovalSettings['self']
      by?: Identity
      exclusive?: boolean
      tokens?: boolean
      keys?: number
    } = {},
  ): Promise<'owner' | undefined> => {
    const { self, by = owner, exclusive = true, tokens = false, keys = 0 } = given
    const settings = {
      approvals: self === undefined ? {} : { self },
      authentication: { ...defaultAuthentication, jwt: tokens ? jwt : [] },
    }
    const queries = stub<Queries>({ query: async () => Array.from({ length: keys }, () => ({})) })
    return ownerApproval({ owner, exclusive, settings })(by, queries)
  }
  const same: Identity = { ...owner }
  assert.equal(await may(), 'owner')
  for (const given of [{ keys: 1 }, { tokens: true }, { exclusive: false }, { self: 'never' as const }, { by: same }]) {
    assert.equal(await may(given), undefined, JSON.stringify(given))
  }
  const others = { keys: 3, tokens: true, exclusive: false }
  assert.equal(await may({ self: 'owner', ...others }), 'owner', 'an explicit setting wins')
  assert.equal(await may({ self: 'owner', by: same }), undefined, 'and means the key file alone')
})
