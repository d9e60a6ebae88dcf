import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTool } from '../../test/sample-tool.fixture.ts'
import { newApiKey } from '../config/service-files.ts'
import { anyOf, keyFileAuthenticator } from './authentication/authenticator.ts'
import { startRig } from './http.fixture.ts'
import { fakeService } from './service.fixture.ts'

test('a catalog with the ETag of the caller is not sent again, and contains no hidden tools', async (t) => {
  const secret = sampleTool({
    namespace: 'demo',
    name: 'vault',
    description: 'Opens it.',
    permissions: ['vault:open'],
    run: () => ({}),
  })
  const service = fakeService([secret])
  const guestKey = newApiKey()
  const guest = { principal: 'guest', tenant: 'acme', permissions: [] }
  const { ask } = await startRig(t, {}, service)
  const { authenticate } = anyOf([keyFileAuthenticator(guestKey, guest)])
  const { server } = await startRig(t, { service, authenticate })
  const mine = await ask('/v1/catalog')
  const etag = mine.headers.get('etag') ?? ''
  assert.match(etag, /^"[0-9a-f]{64}"$/)
  for (const named of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await ask('/v1/catalog', { headers: { 'if-none-match': named } })
    assert.deepEqual([again.status, await again.text(), again.headers.get('etag')], [304, '', etag], named)
  }
  const asGuest = (headers: { [name: string]: string } = {}): Promise<Response> =>
    fetch(`${server.url}/v1/catalog`, { headers: { authorization: `Bearer ${guestKey}`, ...headers } })
  const theirs = await asGuest({ 'if-none-match': etag })
  assert.equal(theirs.status, 200)
  const idsOf = async (answer: Response): Promise<string[]> =>
    ((await answer.json()) as { items: { id: string }[] }).items.map(({ id }) => id)
  const [seen, hidden] = [await idsOf(mine), await idsOf(theirs)]
  assert.deepEqual([seen.includes('demo:vault'), hidden.includes('demo:vault')], [true, false])
  assert.ok(hidden.length > 0)
})
